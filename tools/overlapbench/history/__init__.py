"""The history: results kept in one file, and what they show over time.

record    the data kept from a result file
schema    the tables, which are append-only
database  the file: opening, adding, querying
series    a benchmark's figures on one machine, in the order of time
changes   where the level of a series changed
tables    runs, one run and changes as text
chart     series drawn, with their changes
"""
