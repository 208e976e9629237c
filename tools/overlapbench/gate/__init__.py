"""The gate: measure two builds in turn, compare, and fail only on confirmed regressions.

session   the order of launches, what is measured again, and what counts as confirmed: no input
          or output, so that tests can drive it with synthetic launches
trials    gates with a known outcome, to see how far the gate can be trusted
runner    launches a command, with a timeout, and reads its result
baseline  results kept for later, and the spreads that calibration found
"""
