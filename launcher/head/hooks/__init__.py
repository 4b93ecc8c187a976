"""What tells other programs about a run: metrics and events."""
