"""The terminal while Snakemake works: messages that matter, and below them one line that moves.

Event and level decide what is shown: our own messages, failed jobs, warnings and errors. What else Snakemake says is in
.snakemake/log. Elsewhere than on a terminal, as in a file, the line is written now and then.
"""

import shutil
import threading
from logging import ERROR, WARNING, LogRecord
from typing import TextIO

from snakemake_interface_logger_plugins.common import LogEvent

from fedrepro.cli.terminal import Event, failures
from fedrepro.cli.terminal.progress import Progress

MOVES, WRITTEN = 1.0, 15.0  # seconds between two lines of progress, on a terminal and elsewhere
RESTORE = "restore_output"  # the function that warns of each output of a failed job that was not there before


class Screen:
    """Takes Snakemake's log records. `live`: with the moving line."""

    def __init__(self, stream: TextIO, live: bool, progress: Progress | None = None) -> None:
        self.stream, self.progress = stream, progress or Progress()
        self.moves = live and stream.isatty()
        self.lock, self.over, self.shown = threading.RLock(), threading.Event(), ""
        self.ticker = threading.Thread(target=self._tick, daemon=True) if live else None
        self.failed = self.ended = False
        self.answer: str | None = ""  # the last message of a command that so far neither runs a job nor fails

    def say(self, text: str) -> None:
        """Write a message."""
        with self.lock:
            self._clear()
            self.stream.write(text + "\n")
            self.stream.flush()

    def handle(self, record: LogRecord) -> None:
        """Show a record of Snakemake's, or note what it tells."""
        with self.lock:
            match getattr(record, "event", None):
                case _ if self.ended:
                    pass
                case Event.COST:
                    self.progress.requested = record.asked
                    self.say(record.getMessage())
                case Event.END:
                    self.say(record.getMessage())
                    self.ended = True  # what Snakemake says from here on repeats it
                case LogEvent.RUN_INFO:
                    self.answer = None
                case LogEvent.JOB_INFO:
                    self.progress.running[record.jobid] = record.rule_name
                    if self.ticker and not self.ticker.is_alive() and not self.over.is_set():
                        self.ticker.start()
                case LogEvent.JOB_FINISHED:
                    self.progress.running.pop(record.job_id, None)
                case LogEvent.JOB_ERROR:
                    self.failed = True
                    self.progress.running.pop(record.jobid, None)
                    names = {entry.id: entry.name for entry in self.progress.entries}
                    self.say(failures.describe(record.rule_name, record.log, names))
                case LogEvent.PROGRESS:
                    self.progress.steps = (record.done, record.total)
                case event if record.levelno >= WARNING:
                    self.answer = self.answer if record.levelno < ERROR else None
                    if not self._repeats(record, event):
                        self.say(("" if event else f"{record.levelname.lower()}: ") + record.getMessage())
                case None if self.answer is not None:
                    self.answer = record.getMessage()

    def _repeats(self, record: LogRecord, event: str | None) -> bool:
        """Whether a warning or an error says what is said of a failed job anyway."""
        if event == LogEvent.ERROR:
            return bool(self.progress.running) and record.exception == "RuleException"  # its script's exit code
        return record.funcName == RESTORE or (self.failed and event is None and record.levelno >= ERROR)

    def _tick(self) -> None:
        while not self.over.wait(MOVES if self.moves else WRITTEN):
            self.show()

    def show(self) -> None:
        """Show the line of progress as it is now."""
        with self.lock:
            line = self.progress.line()
            if self.moves:
                width = shutil.get_terminal_size().columns - 1
                self._clear()
                self.shown = line if len(line) <= width else line[: width - 1] + "…"
                self.stream.write(self.shown)
                self.stream.flush()
            elif line and line != self.shown:
                self.say(line)
                self.shown = line

    def _clear(self) -> None:
        if self.moves and self.shown:
            self.stream.write("\r\x1b[K")
            self.shown = ""

    def close(self) -> None:
        """Stop the line, and show the answer of a command that ran no job."""
        self.over.set()
        with self.lock:
            self._clear()
            self.stream.flush()
            if self.answer:
                self.say(self.answer)
            self.answer = None
