"""The report of a job: in words, as JSON, in a file."""
