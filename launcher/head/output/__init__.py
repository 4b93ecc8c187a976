"""What the workers print, on its way to the console."""
