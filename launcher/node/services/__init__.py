"""Services of a node for a run and its workers."""
