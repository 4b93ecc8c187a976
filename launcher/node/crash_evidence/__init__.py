"""Evidence on this machine about the end of a worker."""
