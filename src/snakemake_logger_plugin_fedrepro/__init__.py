"""Snakemake's terminal as fedrepro wants it, switched on in profiles/default. Snakemake finds it by this package's name."""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from fedrepro.cli.terminal.screen import Screen


class LogHandler(LogHandlerBase):
    """Hands what Snakemake says to the screen; a dry run and `--verbose` show it as Snakemake does."""

    def __post_init__(self) -> None:
        from snakemake.logging import DefaultFilter, DefaultFormatter

        given = self.common_settings
        self.plain = bool(given.dryrun or given.verbose or given.debug_dag or given.printshellcmds)
        self.setFormatter(DefaultFormatter(given.quiet, given.show_failed_logs))
        self.addFilter(DefaultFilter(given.quiet, given.debug_dag, given.verbose, given.dryrun, given.printshellcmds))
        quiet = bool(given.quiet)
        self.screen = Screen(sys.stdout if given.stdout else sys.stderr, live=not (self.plain or quiet))

    def emit(self, record: LogRecord) -> None:
        try:
            if self.plain:
                self.screen.say(self.format(record))
            else:
                self.screen.take(record)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.screen.close()
        super().close()

    writes_to_stream = has_filter = has_formatter = True
    writes_to_file = needs_rulegraph = False
