"""A worker with much to say: `lines.py COUNT` writes so many lines of 100 bytes."""

import sys

line = f"{'x' * 99}\n"
for _ in range(int(sys.argv[1])):
    sys.stdout.write(line)
