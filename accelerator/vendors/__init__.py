"""What the launcher knows about each device vendor: one small file each, based on `base`."""
