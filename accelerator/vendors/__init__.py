"""What the launcher must know of each device vendor: a small file each, on `base`."""
