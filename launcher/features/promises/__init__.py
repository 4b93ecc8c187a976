"""`dsrun-check --promises`: real jobs with stand-in workers, each with a fault and a promise."""
