"""Snakemake's terminal as fedrepro wants it, switched on in profiles/default. Snakemake finds it by this package's name."""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from fedrepro.cli.terminal.screen import Screen


class LogHandler(LogHandlerBase):
    """Hands what Snakemake says to the screen; a dry run and `--verbose` show it as Snakemake does."""

    writes_to_stream = True
    writes_to_file = needs_rulegraph = has_filter = has_formatter = False  # Snakemake puts on its own two

    def __post_init__(self) -> None:
        given = self.common_settings
        self.plain = bool(given.dryrun or given.verbose or given.debug_dag or given.printshellcmds)
        self.screen = Screen(sys.stdout if given.stdout else sys.stderr, live=not (self.plain or given.quiet))

    def emit(self, record: LogRecord) -> None:
        try:
            if not self.plain:
                self.screen.handle(record)
            elif (text := self.format(record)) not in ("", "None"):  # as Snakemake's own handler asks
                self.screen.say(text)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.screen.close()
        super().close()
