"""What can be typed besides dsrun itself."""
