"""The version of the installed package."""

from importlib import metadata


def package_version() -> str:
    """Return the version of the installed package, "(not installed)" if its source folder is on the
    path instead."""
    try:
        return metadata.version("fedrepro")
    except metadata.PackageNotFoundError:
        return "(not installed)"
