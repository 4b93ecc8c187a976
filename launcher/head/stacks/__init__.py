"""The stacks of all workers: collected, folded, and explained."""
