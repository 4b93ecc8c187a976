"""What dsrun does under faults on virtual hosts: each row a fault, a phase of a job and a way.

`python -m tests.promises --hours 1` plays rows, and adds what was seen to docs/promises.json, from
which `python -m docs.generate` makes docs/promises-seen.md.
"""
