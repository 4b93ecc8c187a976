"""Where the processes of workers are in their code."""
