"""The stacks of workers' processes."""
