"""The control line between the runner and one node launcher."""
