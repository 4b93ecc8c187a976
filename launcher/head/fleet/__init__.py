"""Connections to the node launchers, and the listener for those that dial."""
