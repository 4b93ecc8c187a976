"""What this machine is, has and runs."""
