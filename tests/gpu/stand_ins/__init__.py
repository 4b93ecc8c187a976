"""What takes the place of torch and NVML where there is no GPU, with the words of the real ones.

A test puts these modules among the packages of a Python of its own. `STAND_IN_FOLDER` is where
processes note what they hold of the one device; `STAND_IN_FAULT` names what is wrong with it.
"""
