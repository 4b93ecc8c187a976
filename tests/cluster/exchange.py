"""A job without torch: in each step every rank computes, then sends bytes to every other rank.

Arguments: seconds of CPU time of a step, bytes to each other rank, steps.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
COMPUTE, BYTES, STEPS = float(sys.argv[-3]), int(sys.argv[-2]), int(sys.argv[-1])


def reached(address: tuple[str, int]) -> socket.socket:
    """Connect to a rank that may not listen yet."""
    while True:
        try:
            return socket.create_connection(address)
        except ConnectionRefusedError:
            time.sleep(0.02)


def places(own: tuple[str, int]) -> list[tuple[str, int]]:
    """Tell rank 0 where this rank listens; return where each does."""
    store = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if RANK > 0:
        with reached(store) as line, line.makefile("rw") as file:
            mine = line.getsockname()[0], own[1]
            file.write(f"{json.dumps([RANK, *mine])}\n")
            file.flush()
            return [tuple(one) for one in json.loads(file.readline())]
    known = {0: (store[0], own[1])}
    with socket.create_server(("", store[1])) as server:
        files = [server.accept()[0].makefile("rw") for _ in range(SIZE - 1)]
        for file in files:
            rank, host, port = json.loads(file.readline())
            known[rank] = host, port
        for file in files:
            file.write(f"{json.dumps([known[rank] for rank in range(SIZE)])}\n")
            file.close()
    return [known[rank] for rank in range(SIZE)]


def send(line: socket.socket) -> None:
    """Send the bytes of one step."""
    line.sendall(bytes(BYTES))


def receive(line: socket.socket) -> None:
    """Take the bytes of one step."""
    left = BYTES
    while left:
        left -= len(line.recv(min(left, 1 << 20)))


def compute() -> None:
    """Work."""
    until = time.process_time() + COMPUTE
    while time.process_time() < until:
        pass


with socket.create_server(("", 0)) as server:
    there = places(("", server.getsockname()[1]))
    out = [reached(address) for rank, address in enumerate(there) if rank != RANK]
    into = [server.accept()[0] for _ in out]
for step in range(STEPS):
    compute()
    jobs = [threading.Thread(target=send, args=[line]) for line in out]
    jobs += [threading.Thread(target=receive, args=[line]) for line in into]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    print(f"step {step}", flush=True)
