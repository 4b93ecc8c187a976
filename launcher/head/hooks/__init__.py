"""Reports to other programs about a run: metrics and events."""
