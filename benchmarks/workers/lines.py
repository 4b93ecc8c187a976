"""A worker with much to say: `lines.py COUNT` writes so many lines of 100 bytes.

`lines.py COUNT own` writes lines that no other rank writes.
"""

import os
import sys

own = os.environ["RANK"] if sys.argv[2:] == ["own"] else ""
line = f"{own:x<99}\n"
for _ in range(int(sys.argv[1])):
    sys.stdout.write(line)
