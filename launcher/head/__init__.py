"""The half of a running job that lives in the runner."""
