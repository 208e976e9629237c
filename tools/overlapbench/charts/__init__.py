"""The charts: an entry each in table.py, whose shape most often is data.

curve_chart  charts of curves, as data; drawn by curves.py, on the axes of axes.py
heat_map     what charts of cells share: pairs, partition and matrix
stacks       bars whose parts add up: attribution and steps
naming       what curves, panels and bars are called
panels       what all records have, and panels side by side
plot         marks that several charts draw, and charts that need no checks
times        times against a size or grid; slowdown, too, is drawn on it

A module that draws one chart has two functions: `select` returns the rows, and `draw` draws them.
"""
