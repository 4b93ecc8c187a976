"""What the whole-run benchmarks start: a worker that prints one line and is done."""

print("worker here")
