"""A command on a terminal of its own: the pseudo-terminal has a size, and its signals reach the
command as a user's do."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from pathlib import Path

CTRL_C = b"\x03"


def opened(columns: int) -> tuple[int, int]:
    """The two ends of a pseudo-terminal: ours, and that of a command."""
    ours, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    return ours, other


class OnTerminal:
    def __init__(
        self, columns: int, *command: str, cwd: Path, env: dict[str, str] | None = None
    ) -> None:
        self.ours, other = opened(columns)
        self.shown = ""
        self.process = subprocess.Popen(
            command, cwd=cwd, env=env, preexec_fn=lambda: os.login_tty(other)
        )
        os.close(other)

    def read(self, until: str | None = None, seconds: float = 300) -> str:
        """Read until a text is shown, or to the end."""
        deadline = time.monotonic() + seconds
        while until is None or until not in self.shown:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.ours], [], [], 1)[0]:
                try:
                    more = os.read(self.ours, 65536)
                except OSError:  # on Linux, of a terminal that nobody has open any more
                    more = b""
                if not more:
                    assert until is None or until in self.shown, self.shown
                    break
                self.shown += more.decode(errors="replace")
        return self.shown

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def close(self) -> None:
        """Close the terminal, as a user closes its window."""
        os.close(self.ours)

    def code(self, seconds: float = 120) -> int:
        """How the command ended, as a shell says it."""
        code = self.process.wait(seconds)
        return code if code >= 0 else 128 - code
