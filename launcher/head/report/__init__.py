"""How a job ended: in words, as JSON, in a file."""
