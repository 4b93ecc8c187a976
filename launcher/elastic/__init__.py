"""DeepSpeed's elastic batch plan: which world sizes share out one batch, and how."""
