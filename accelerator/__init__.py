"""Device vendors: what the launcher must know of each, found without importing torch."""
