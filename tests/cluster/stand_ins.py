"""Small stand-ins for the programs of examples/roles: what they need of each other, and no more.

A server answers every request with what it knows, as JSON, and takes in what a request has; its
weights are those of the file `model`. Who serves says where, and who asks says whom: neither tries
again at the start, so an order that is wrong ends the job.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

MEETING = """
import http.server, json, os, sys, time, urllib.request

def say(*words):
    print(os.environ["ROLE_NAME"], *words, flush=True)

def devices():
    return len(os.environ["CUDA_VISIBLE_DEVICES"].split(","))

def serve(port):
    with open("model") as file:
        known = {"weights": int(file.read()), "members": [], "acks": []}

    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            body = json.dumps(known).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        def do_POST(self):
            told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            for name, value in told.items():
                known[name] = known[name] + value if type(value) is list else value
            self.do_GET()
        def log_message(self, *_):
            pass

    time.sleep(0.5)  # a real one loads for longer: who asks before has begun too early
    server = http.server.ThreadingHTTPServer(("", int(port)), Answers)
    say("serves", os.uname().nodename, port)
    server.serve_forever()

def ask(addr, **told):
    data = json.dumps(told).encode() if told else None
    with urllib.request.urlopen(f"http://{addr}/", data) as answer:
        return json.load(answer)

def wait_for(condition):
    while not condition():
        time.sleep(0.02)

def wait_to_go():
    wait_for(lambda: os.path.exists("go-" + os.environ["ROLE_NAME"]))

def join(addr, said="", file=sys.stdout):
    ask(addr, members=[devices()])
    print(said, file=file, flush=True)
    say("met", addr)
    done = 0
    while True:
        time.sleep(0.02)
        try:  # a real one tries for a while, too
            if (step := ask(addr)["weights"]) > done:
                ask(addr, acks=[step])
                done = step
        except OSError:
            pass

def lead(addr, members, step):
    wait_for(lambda: len(ask(addr)["members"]) >= members)
    ask(addr, weights=step)
    wait_for(lambda: ask(addr)["acks"].count(step) >= members)
    say("has led to", step)
"""

TRL = """
kind, *words = sys.argv[1:]
words = dict(zip(words[::2], words[1::2]))
assert kind == "vllm-serve" and words["--model"]
assert devices() == int(words["--tensor_parallel_size"])
serve(words["--port"])
"""

GRPO = """
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert words["--vllm_mode"] == "server"
addr = words["--vllm_server_base_url"].removeprefix("http://")
first = ask(addr)["weights"]
if os.environ["RANK"] == "0":
    ask(addr, weights=first + 3)
say("met", addr)
wait_to_go()
if os.environ["RANK"] == "0":
    say("taught from", first, "to", ask(addr)["weights"])
"""

RAY = """
start, *words = sys.argv[1:]
assert start == "start" and "--block" in words
assert words[words.index("--num-gpus") + 1] == str(devices())
if "--head" in words:
    port, other = (words[words.index(name) + 1] for name in ("--port", "--dashboard-port"))
    assert port != other
    serve(port)
else:
    join(words[words.index("--address") + 1], "Ray runtime started.")
"""

MAIN_PPO = """
words = dict(word.split("=") for word in sys.argv[1:])
addr = os.environ["RAY_ADDRESS"]
say("met", addr)
others = int(words["trainer.nnodes"]) - 1
lead(addr, others, 8)
assert ask(addr)["members"] == [int(words["trainer.n_gpus_per_node"])] * others
wait_to_go()
"""

DASK = """
kind, *words = sys.argv[1:]
if kind == "scheduler":
    port, other = (words[words.index(name) + 1] for name in ("--port", "--dashboard-address"))
    assert other.startswith(":") and other != ":" + port
    serve(port)
else:
    assert devices() == 1
    addr = words[0].removeprefix("tcp://")
    join(addr, "Registered to: " + words[0], sys.stderr)
"""

CLIENT = """
addr = sys.argv[1].removeprefix("tcp://")
say("met", addr)
lead(addr, 4, 8)
wait_to_go()
lead(addr, 4, 9)
"""

UV = """
run, kind, at, config, *words = sys.argv[1:]
words = dict(zip(words[::2], words[1::2]))
assert (run, at) == ("run", "@") and open(config)
if kind == "inference":
    assert devices() == 8
    serve(words["--server.port"])
addr = words["--client.base-url"].removeprefix("http://").removesuffix("/v1")
say("met", addr)
for step in 8, 9:
    open(f"rollouts-{step}", "w").write(str(ask(addr)["weights"]))
    wait_for(lambda: os.path.exists(f"weights-{step}"))
    ask(addr, weights=step)
wait_to_go()
say("taught to", ask(addr)["weights"])
"""

PRIME_TRAINER = """
assert sys.argv[1] == "@" and open(sys.argv[2])
for step in 8, 9:
    wait_for(lambda: os.path.exists(f"rollouts-{step}"))
    open(f"weights-{step}", "w").close()
say("ends")
"""

TRAIN = """
folder = sys.argv[sys.argv.index("--checkpoints") + 1]
os.makedirs(folder, exist_ok=True)
open(f"{folder}/5000", "w").close()
say("saved", 5000)
wait_to_go()
open(f"{folder}/10000", "w").close()
say("ends")
"""

EVALUATE = """
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
folder, last = words["--checkpoints"], words["--until_step"]
wait_for(lambda: os.path.exists(f"{folder}/5000"))
say("evaluated", 5000)
wait_for(lambda: os.path.exists(f"{folder}/{last}"))
wait_to_go()
say("evaluated", last)
"""

SERVER = """
assert os.environ["CUDA_VISIBLE_DEVICES"] in ("-1", "")
serve(sys.argv[sys.argv.index("--port") + 1])
"""

WORKER = """
addr = sys.argv[sys.argv.index("--server") + 1]
ask(addr, members=[int(os.environ["RANK"])])
say("met", addr)
wait_to_go()
say("ends with weights", ask(addr)["weights"])
"""

COMMANDS = {"trl": TRL, "ray": RAY, "dask": DASK, "uv": UV}
SCRIPTS = {
    "grpo.py": GRPO,
    "verl/trainer/main_ppo.py": MAIN_PPO,
    "client.py": CLIENT,
    "src/prime_rl/trainer/rl/train.py": PRIME_TRAINER,
    "train.py": TRAIN,
    "evaluate.py": EVALUATE,
    "server.py": SERVER,
    "worker.py": WORKER,
}
CONFIGS = ("infer", "orch", "train")


def lay_out(folder: Path) -> str:
    """Write all of them to a folder; return the PATH with which their commands are found."""
    (folder / "bin").mkdir()
    (folder / "configs").mkdir()
    (folder / "model").write_text("7")
    (folder / "meeting.py").write_text(MEETING)
    head = f"import os, sys\nsys.path.insert(0, {str(folder)!r})\nfrom meeting import *\n"
    for name, text in SCRIPTS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(head + text)
    for name in CONFIGS:
        (folder / "configs" / f"{name}.toml").touch()
    commands = {name: f"#!{sys.executable} -S\n{head}{text}" for name, text in COMMANDS.items()}
    commands["python3"] = f'#!/bin/sh\nexec {sys.executable} "$@"\n'
    for name, text in commands.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    return f"{folder}/bin:{os.environ['PATH']}"
