"""Snakemake logger plugin for fedrepro's terminal output; profiles/default enables it. Snakemake finds it by its name."""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from fedrepro.cli.terminal.screen import Screen


class LogHandler(LogHandlerBase):
    """A handler that passes Snakemake's log records to the screen; a dry run and `--verbose` show them as Snakemake does."""

    # properties in the base class; without a filter and formatter Snakemake adds its own
    writes_to_stream = True  # pyright: ignore[reportAssignmentType] - a constant property
    writes_to_file = needs_rulegraph = has_filter = has_formatter = False  # pyright: ignore[reportAssignmentType] - constants

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.plain = bool(settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds)
        self.screen = Screen(sys.stdout if settings.stdout else sys.stderr, live=not (self.plain or settings.quiet))

    def emit(self, record: LogRecord) -> None:
        try:
            if not self.plain:
                self.screen.handle(record)
            elif (text := self.format(record)) not in ("", "None"):  # as Snakemake's own handler does
                self.screen.say(text)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.screen.close()
        super().close()
