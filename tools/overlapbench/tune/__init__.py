"""The tuner: finds the settings at which an overlapped pair takes the least time or energy.

space    the settings, their values, and the combinations that exist on this machine
search   the race: which settings are measured next, and which are out. No input or output
machine  queries the program and measures rows
study    one pair from its first row to the answer: race, and confirmation in separate processes
report   the printed text and the JSON
"""
