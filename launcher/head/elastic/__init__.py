"""The runner's half of an elastic job."""
