"""What real jobs have told, as a history that the checker of simulated worlds judges."""
