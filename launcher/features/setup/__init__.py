"""`--setup`: a command that is run once before the job, per node or per shared working folder."""
