"""`make gpu`: dsrun on a real NVIDIA GPU, in one command, wherever one can be had for minutes.

`parts` is the table of what is tried; `verdicts` says what has to be seen, and is pure; `desk` runs
commands within limits; `report` writes down what was seen. `programs/` are the training programs.
Nothing here needs more than Python 3.10 and torch; the tests beside it put `stand_ins/` in the
place of torch and NVML.
"""
