"""The charts: each is an entry in table.py, and most are pure data.

curve_chart  charts of curves, as data; drawn by curves.py, on the axes of axes.py
heat_map     parts that charts of cells share: pairs, partition and matrix
stacks       bars whose parts add up: attribution and steps
naming       the names of curves, panels and bars
panels       fields of all records, and panels side by side
plot         marks that several charts draw, and charts that need no checks
times        times against a grid; slowdown uses the same axis

A module that draws one chart has two functions: `select` returns the rows, and `draw` draws them.
"""
