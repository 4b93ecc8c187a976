"""Elastic jobs: torch's agent on every node, rounds that the runner forms, sizes of batches."""
