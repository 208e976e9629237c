"""The gate: measure two builds in turn, compare, and fail only on what a second look confirms.

session   the order of launches, what is measured again, and what counts as confirmed: no input
          or output, so that tests drive it with launches made up
trials    gates of which it is known how they must end, to see how far the gate can be trusted
runner    launches a command, with a timeout, and reads its result
baseline  results kept for later, and the spreads that calibration found
"""
