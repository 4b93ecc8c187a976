"""What this machine knows about the end of a worker."""
