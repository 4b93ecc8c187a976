"""The workers of a node: prepared, started, watched, stopped."""
