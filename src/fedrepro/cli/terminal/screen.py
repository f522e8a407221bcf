"""The terminal while Snakemake works: important messages, and below them one line of progress that
is redrawn.

A record's event and level decide what is shown: our own messages, failed jobs, warnings and errors.
Snakemake's other messages are in .snakemake/log. If the output is no terminal but a file, the line
of progress is appended now and then.
"""

import os
import threading
from logging import ERROR, WARNING, LogRecord
from typing import Any, TextIO

from rich.text import Text
from snakemake_interface_logger_plugins.common import LogEvent

from fedrepro.cli.terminal import Event, failures, painted
from fedrepro.cli.terminal.progress import Progress
from fedrepro.core.errors import STOPPED, stops

# between two lines of progress, on a terminal and in a file
REDRAW_SECONDS, APPEND_SECONDS = 1.0, 15.0
UNKNOWN_WIDTH = 80  # of a terminal that tells none
RESTORE = "restore_output"  # Snakemake's function that warns of each new output of a failed job


class Screen:
    """A view of Snakemake's log records on `stream`, with the line of progress if `live`."""

    def __init__(self, stream: TextIO, live: bool, progress: Progress | None = None) -> None:
        self.stream, self.progress = stream, progress or Progress()
        self.redraws = live and stream.isatty()
        self.lock, self.over, self.shown = threading.RLock(), threading.Event(), ""
        self.ticker = threading.Thread(target=self._tick, daemon=True) if live else None
        self.failed = self.ended = False
        # the last message of a command that so far neither runs a job nor fails
        self.answer: str | None = ""

    def say(self, text: str) -> None:
        """Write a message."""
        with self.lock:
            self._clear()
            self.stream.write(text + "\n")
            self.stream.flush()

    def handle(self, record: LogRecord) -> None:
        """Show a record, or update the progress from it."""
        fields: Any = record  # with the attributes that Snakemake adds, by event
        with self.lock:
            match getattr(record, "event", None):
                case _ if self.ended or stops:
                    pass
                case Event.COST:
                    self.progress.requested = fields.requested
                    self.say(record.getMessage())
                case Event.END:
                    style = "bold red" if record.levelno >= ERROR else "bold green"
                    first, *rest = record.getMessage().split("\n")
                    self.say("\n".join([painted(first, style, self.stream), *rest]))
                    self.ended = True  # Snakemake's later messages repeat it
                case LogEvent.RUN_INFO:
                    self.answer = None
                case LogEvent.JOB_INFO:
                    self.progress.running[fields.jobid] = fields.rule_name
                    if self.ticker and not self.ticker.is_alive() and not self.over.is_set():
                        self.ticker.start()
                case LogEvent.JOB_FINISHED:
                    self.progress.running.pop(fields.job_id, None)
                case LogEvent.JOB_ERROR:
                    self.failed = True
                    self.progress.running.pop(fields.jobid, None)
                    names = {entry.id: entry.name for entry in self.progress.entries}
                    self.say(
                        painted(
                            failures.describe(fields.rule_name, fields.log, names),
                            "red",
                            self.stream,
                        )
                    )
                case LogEvent.PROGRESS:
                    self.progress.steps = (fields.done, fields.total)
                case event if record.levelno >= WARNING:
                    self.answer = self.answer if record.levelno < ERROR else None
                    if not self._repeats(record, event):
                        text = (
                            "" if event else f"{record.levelname.lower()}: "
                        ) + record.getMessage()
                        self.say(
                            painted(
                                text, "red" if record.levelno >= ERROR else "yellow", self.stream
                            )
                        )
                case None if self.answer is not None:
                    self.answer = record.getMessage()

    def _repeats(self, record: LogRecord, event: str | None) -> bool:
        """Return whether a warning or an error repeats the message on a failed job."""
        if event == LogEvent.ERROR:  # a RuleException tells the exit code of the job's script
            return (
                bool(self.progress.running)
                and getattr(record, "exception", None) == "RuleException"
            )
        return record.funcName == RESTORE or (
            self.failed and event is None and record.levelno >= ERROR
        )

    def _tick(self) -> None:
        while not self.over.wait(REDRAW_SECONDS if self.redraws else APPEND_SECONDS):
            self.show()

    def show(self) -> None:
        """Show the current line of progress."""
        with self.lock:
            line = self.progress.line()
            if self.redraws:
                text = Text(line)
                text.truncate(
                    (os.get_terminal_size(self.stream.fileno()).columns or UNKNOWN_WIDTH) - 1,
                    overflow="ellipsis",
                )
                self._clear()
                self.shown = text.plain
                self.stream.write(self.shown)
                self.stream.flush()
            elif line and line != self.shown:
                self.say(line)
                self.shown = line

    def _clear(self) -> None:
        if self.redraws and self.shown:
            self.stream.write("\r\x1b[K")
            self.shown = ""

    def close(self) -> None:
        """Stop the line of progress, and show the answer of a command that ran no job."""
        self.over.set()
        with self.lock:
            self._clear()
            self.stream.flush()
            if stops and not self.ended:
                self.answer, self.ended = STOPPED, True
            if self.answer:
                self.say(self.answer)
            self.answer = None
