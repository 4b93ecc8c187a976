"""What the whole-run benchmarks start: a worker that prints one line and is done."""

# The line and its end in one write, as Python's print does not with -u: on a busy machine half a
# line could be shown for itself.
print("worker here\n", end="")
