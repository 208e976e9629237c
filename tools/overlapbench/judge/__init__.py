"""Judging results: comparisons, the gate, and the history.

side       the runs of a side as arrays
known      the spread between runs that is known before
floors     the TOML file that sets floors
judgements   each metric of each benchmark: its change, interval and verdict
verdicts   the verdict of every benchmark, and the exit status; `compare` for scripts
wording    all of these in words and figures

session    the gate's order of runs, what is measured again and confirmed; a stored base
runner     runs a command, with a timeout, and reads its result

history    the history's file, and what it keeps from a result
series     a benchmark's figures on one machine, and where their level changed
"""
