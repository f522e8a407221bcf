"""The one exception that a user is meant to read."""


class UserError(Exception):
    """Something the user can mend: the command line prints its message without a traceback and exits with code 2.

    The message names the key and the file, and lists the valid values.
    """
