"""The charts: an entry each in table.py, whose shape most often is data.

curve_chart  charts of curves, as data; drawn by curves.py, on the axes of axes.py
naming       what curves and panels are called
panels       what all records have, and panels side by side

Both grid charts stand on what sweep.py prepares; stacked bars on stacks.py.
"""
