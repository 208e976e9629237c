"""Comparing two sides of launches.

statistics  changes, their errors, tests and floors
side        the launches of a side as arrays
floors      the TOML file that sets floors and stores calibrated spreads
verdicts    the verdict of every benchmark, and the exit status
table       the comparison for people, and one benchmark in full
formats     the comparison for programs: JSON, JUnit XML, GitHub's annotations, Markdown
output      the table of all formats, and the printed and written outputs
"""
