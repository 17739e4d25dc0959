"""A web server for the demo: files by range, with an ETag, counting requests and bytes, failing one in so many.

usage: server.py FOLDER PORTFILE FAIL_EVERY [UPSTREAM]      GET /counters answers [requests, bytes, failed]

UPSTREAM is the port of a server on this machine, which then answers instead of the files.
"""

import http.client
import json
import os
import pathlib
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FOLDER = pathlib.Path(sys.argv[1])
FAIL_EVERY = int(sys.argv[3])
UPSTREAM = int(sys.argv[4]) if len(sys.argv) > 4 else None
lock = threading.Lock()
counters = [0, 0, 0]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/counters":
            return self.answer(200, json.dumps(counters).encode(), {})
        with lock:
            counters[0] += 1
            failing = FAIL_EVERY and counters[0] % FAIL_EVERY == 0
            counters[2] += bool(failing)
        if failing:
            return self.answer(503, b"", {})
        if UPSTREAM:
            return self.forward()
        with open(FOLDER / os.path.basename(self.path), "rb") as file:
            status = os.fstat(file.fileno())
            first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, status.st_size - int(last))
            end = min(int(last) + 1, status.st_size) if first and last else status.st_size
            file.seek(start)
            content = file.read(end - start)
        with lock:
            counters[1] += len(content)
        self.answer(206, content, {
            "Content-Range": f"bytes {start}-{start + len(content) - 1}/{status.st_size}",
            "ETag": f'"{status.st_mtime_ns:x}-{status.st_ino:x}"',
        })

    do_HEAD = do_GET

    def forward(self):
        """As it came, with its signature, which is for this server's name."""
        upstream = http.client.HTTPConnection("127.0.0.1", UPSTREAM)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() != "connection":
                upstream.putheader(name, value)
        upstream.endheaders()
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        with lock:
            counters[1] += len(content)
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                self.send_header(name, value)
        length = str(len(content)) if self.command == "GET" else answer.getheader("Content-Length", "0")
        self.send_header("Content-Length", length)
        self.end_headers()
        self.wfile.write(content)

    def answer(self, status, content, headers):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


with Server(("127.0.0.1", 0), Handler) as server:
    part = pathlib.Path(sys.argv[2] + ".part")
    part.write_text(str(server.server_port))
    part.rename(sys.argv[2])
    server.serve_forever()
