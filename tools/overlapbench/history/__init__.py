"""The history: results kept in one file, and what they show over time.

record    what is kept of a result file
schema    the tables, which can be added to and nothing else
database  the file: opened, added to, asked
series    a benchmark's figures on one machine, in the order of time
changes   where the level of a series changed
tables    runs, one run and changes as text
chart     series drawn, with their changes
"""
