"""Workers that are forked from one process, which has imported their modules."""
