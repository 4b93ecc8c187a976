"""What a worker runs before its own program; it imports nothing of dsrun."""
