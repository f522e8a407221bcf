"""A local server of files that breaks off, is busy, refuses or says nothing."""

import contextlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from support.files import damage


class Server(ThreadingHTTPServer):
    """Serves `files` (path -> bytes) with ranges, unless it ignores them (None) or answers from the
    start (False); the next `drops` answers break off, the next `busy` are of this `status`.
    `answers`: path -> what makes pieces to send."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files, self.drops, self.busy, self.status, self.log, self.ranges = (
            {},
            0,
            0,
            503,
            [],
            True,
        )
        self.answers = {}
        self.url = f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, data = self.server, self.server.files.get(self.path)
        server.log.append((self.path, self.headers.get("Range")))
        if self.path in server.answers:
            with contextlib.suppress(ConnectionError):  # of who has heard enough
                for piece in server.answers[self.path]():
                    self.wfile.write(piece)
            return
        if server.busy:
            server.busy -= 1
            return self.send_error(server.status)
        if data is None:
            return self.send_error(404)
        start = int((self.headers.get("Range") or "bytes=0-")[6:-1]) if server.ranges else 0
        if start >= len(data) > 0:
            return self.send_error(416)
        part = start or (self.headers.get("Range") and server.ranges is False)
        self.send_response(206 if part else 200)
        if part:
            self.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        self.send_header("Content-Length", str(len(data) - start))
        self.end_headers()
        body = data[start:]
        if server.drops:
            server.drops -= 1
            body = damage(body)
        self.wfile.write(body)

    def log_message(self, *_):
        pass
