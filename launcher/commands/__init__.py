"""The commands besides dsrun itself."""
