"""What is checked on this node before a job, or for others."""
