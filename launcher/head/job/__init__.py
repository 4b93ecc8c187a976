"""A job of one program: its preparation, start, status and end."""
