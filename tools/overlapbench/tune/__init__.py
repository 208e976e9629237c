"""The tuner: finds the settings at which an overlapped pair takes the least time.

space    what may be varied, with which values, and which combinations this machine has
search   the race: which settings are measured next, and which are out. No input or output
machine  asks the program and measures rows
confirm  the winner against the default, in processes of their own
replay   the race again on a grid that was measured whole, from its file
advice   what the settings mean to whoever uses NCCL and cuBLASLt
report   what is printed, and the JSON
"""
