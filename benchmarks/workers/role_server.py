"""A server that needs a while until it answers, and takes SIGTERM or not (`stubborn`)."""

import http.server
import signal
import sys
import time

port, slow, stubborn = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3] == "stubborn"
signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else signal.SIG_DFL)
time.sleep(slow)


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers every request with 200."""

    def do_GET(self) -> None:
        """Answer."""
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


server = http.server.HTTPServer(("", port), Answers)
print("listens", time.monotonic(), flush=True)
server.serve_forever()
