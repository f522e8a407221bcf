"""Snakemake logger plugin for fedrepro's terminal output; profiles/default enables it. Snakemake
finds it by its name."""

import sys
from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase

from fedrepro.cli.terminal import Event
from fedrepro.cli.terminal.screen import Screen

DRY_WIDTH = 150  # characters; a dry run's reasons may list thousands of files in one line


class LogHandler(LogHandlerBase):
    """A handler that passes Snakemake's log records to the screen; a dry run and `--verbose` show
    them as Snakemake does.

    A dry run cuts long lines and ends with the cost of the work.
    """

    # properties in the base class; without a filter and formatter Snakemake adds its own
    writes_to_stream = True  # pyright: ignore[reportAssignmentType] - a constant property
    writes_to_file = needs_rulegraph = has_filter = has_formatter = False  # pyright: ignore[reportAssignmentType] - constants

    def __post_init__(self) -> None:
        settings = self.common_settings
        self.plain = bool(
            settings.dryrun or settings.verbose or settings.debug_dag or settings.printshellcmds
        )
        self.dry, self.cost = bool(settings.dryrun), ""
        self.screen = Screen(
            sys.stdout if settings.stdout else sys.stderr, live=not (self.plain or settings.quiet)
        )

    def emit(self, record: LogRecord) -> None:
        try:
            if not self.plain:
                self.screen.handle(record)
            elif self.dry and getattr(record, "event", None) == Event.COST:
                self.cost = record.getMessage()
            # as Snakemake's own handler does
            elif (text := self.format(record)) not in ("", "None"):
                self.screen.say("\n".join(map(cut, text.split("\n"))) if self.dry else text)
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        if self.cost:
            first, *lines = self.cost.split("\n")
            self.screen.say("\n".join([*lines, first]))
            self.cost = ""
        self.screen.close()
        super().close()


def cut(line: str) -> str:
    return line if len(line) <= DRY_WIDTH else f"{line[: DRY_WIDTH - 2]} …"
