"""The console: worker output and dsrun's own messages."""
