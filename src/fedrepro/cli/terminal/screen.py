"""The terminal while Snakemake works: messages that matter, and below them one line that moves.

Elsewhere, as in a file, the line is written now and then.
"""

import shutil
import threading
from collections.abc import Iterable
from logging import INFO, WARNING, LogRecord
from pathlib import Path
from typing import TextIO

from fedrepro.cli.terminal import failures
from fedrepro.cli.terminal.progress import Job, Progress

MOVES, WRITTEN = 1.0, 15.0  # seconds between two lines of progress, on a terminal and elsewhere
CALL = "RuleException:\nCalledProcessError"  # a script failed: which, and why, is told from its log
CHATTER = (  # what Snakemake says of itself; .snakemake/log has it
    CALL,
    "Assuming unrestricted", "Building DAG", "Using shell", "Complete log", "Select jobs", "Execute ", "Touching output",
    "Removing ", "Group jobs", "Conda environments", "Singularity containers", "Storing output", "Finished jobid",
    "Elapsed time", "Shutting down", "Exiting because", "WorkflowError:\nAt least one job did not complete", "Will exit",
    "Cannot restore ",  # each output that a failed job was to update and that was not there before
)  # fmt: skip


class Screen:
    """Takes Snakemake's log records. `live`: with the moving line."""

    def __init__(self, stream: TextIO, live: bool, progress: Progress | None = None) -> None:
        self.stream, self.progress = stream, progress or Progress()
        self.moves = live and stream.isatty()
        self.lock, self.over, self.shown = threading.RLock(), threading.Event(), ""
        self.ticker = threading.Thread(target=self._tick, daemon=True) if live else None

    def say(self, text: str | None) -> None:
        """A message of its own."""
        if text and text != "None":
            with self.lock:
                self._clear()
                self.stream.write(text + "\n")
                self.stream.flush()

    def take(self, record: LogRecord) -> None:
        """One record of Snakemake's."""
        if tasks := getattr(record, "tasks", None):
            with self.lock:
                self.progress.ask(tasks)
        event = getattr(record, "event", None)
        known = {"job_info": self._job, "job_started": self._started, "job_finished": self._finished}
        known |= {"job_error": self._failed, "progress": self._stepped}
        if event in known:
            with self.lock:
                known[event](record)
        elif event == "error" or (event is None and record.levelno >= INFO):
            text = record.getMessage()
            if not text.lstrip().startswith(CHATTER):
                self.say(("" if record.levelno < WARNING or event == "error" else f"{record.levelname.lower()}: ") + text)

    def _job(self, record: LogRecord) -> None:
        self.progress.jobs[record.jobid] = Job(record.rule_name, _paths(record.output))

    def _started(self, record: LogRecord) -> None:
        for number in record.jobs:
            self.progress.running[number] = None
        if self.ticker and not self.ticker.is_alive() and not self.over.is_set():
            self.ticker.start()

    def _finished(self, record: LogRecord) -> None:
        self.progress.running.pop(getattr(record, "job_id", None), None)

    def _stepped(self, record: LogRecord) -> None:
        self.progress.steps = (record.done, record.total)

    def _failed(self, record: LogRecord) -> None:
        self.progress.running.pop(record.jobid, None)
        names = {over.parent.name: task.name for over, task in self.progress.tasks.items() if over.name == "summary.json"}
        self.say(failures.told(record.rule_name, _paths(record.log), names))

    def _tick(self) -> None:
        while not self.over.wait(MOVES if self.moves else WRITTEN):
            self.show()

    def show(self) -> None:
        """The line of progress as it is now."""
        with self.lock:
            line = self.progress.line()
            if not self.moves:
                if line and line != self.shown:
                    self.say(line)
                    self.shown = line
                return
            width = shutil.get_terminal_size().columns - 1
            self._clear()
            self.shown = line if len(line) <= width else line[: width - 1] + "…"
            self.stream.write(self.shown)
            self.stream.flush()

    def _clear(self) -> None:
        if self.moves and self.shown:
            self.stream.write("\r\x1b[K")
            self.shown = ""

    def close(self) -> None:
        """No line moves after this."""
        self.over.set()
        with self.lock:
            self._clear()
            self.stream.flush()


def _paths(told: Iterable[str] | None) -> list[Path]:
    """Files as Snakemake's log names them, some with a remark behind."""
    return [Path(str(path).split(" (")[0]) for path in told or []]
