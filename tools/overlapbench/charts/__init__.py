"""One chart a file: the function that selects its rows, and the one that draws them.

Registered in the table of overlapbench.chart. Both grid charts stand on what sweep.py prepares;
charts of measured figures beside a reference on curves.py; panels side by side on panels.py.
"""
