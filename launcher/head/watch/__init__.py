"""The watches on a running job: for hangs, rules on its output, and slow ranks."""
