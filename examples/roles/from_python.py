"""Run two functions, a server and a trainer that queries it, as one job on this machine.

    python examples/roles/from_python.py

With `hosts="h1,h2"` or a hostfile, the roles run on other machines.
"""

import json
from urllib.request import urlopen

from dsrun import Role, launch

STEPS = 3


def serve() -> None:
    """Answer each request with the square of its number."""
    from http.server import BaseHTTPRequestHandler, HTTPServer

    from dsrun.accelerator import roles

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            number = self.path.strip("/")
            self.wfile.write(json.dumps(int(number) ** 2 if number.isdigit() else None).encode())

    HTTPServer(("", roles.port("http")), Handler).serve_forever()


def train() -> list[int]:
    """Query the server once per step; return its answers."""
    from dsrun.accelerator import roles

    (server,) = roles.addrs("server")
    return [json.load(urlopen(f"http://{server}/{step}")) for step in range(STEPS)]


if __name__ == "__main__":
    server = Role(
        "server",
        serve,
        hosts="localhost",
        slots="0",
        ports=["http"],
        ready="http:/health",
        ends="never",
    )
    trainer = Role("trainer", train, hosts="localhost", slots="1-2", after=["server"], ends="job")
    job = launch(roles=[server, trainer], hosts="localhost:3", accelerator="cpu")
    print(job.results(role="trainer"))
