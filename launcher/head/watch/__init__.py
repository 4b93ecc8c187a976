"""What is watched while a job runs: hangs, rules on its output, slow ranks."""
