"""The charts: each is an entry of a table, drawn by one of three specifications.

pairs, transfers, kernels, training, laboratory: the entries, which ../chart.py lists in order
curves       curves in panels, on the axes of axes.py; finish.py adds knees, fits and plateaus
cells        heat maps
bars         bars of parts
records      which rows a chart takes, and what of them its marks show
naming       the names of curves, panels and bars
"""
