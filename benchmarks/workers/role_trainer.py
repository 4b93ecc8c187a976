"""Says when it was started, waits, and says when it ends."""

import sys
import time
from pathlib import Path

ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
age = float(Path("/proc/uptime").read_text().split()[0]) - ticks / 100
print("started", time.monotonic() - age, flush=True)
time.sleep(float(sys.argv[1]))
print("ends", time.monotonic(), flush=True)
