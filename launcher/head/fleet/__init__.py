"""The nodes: connected, checked, recognized when they dial in."""
