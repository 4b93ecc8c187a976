"""One program on this node, from JOB to DONE."""
