"""The charts: each is an entry of a table, drawn by one of three specifications.

pairs, training, laboratory   the entries of these, which ../chart.py lists in order
general      the entry for all families without their own
curves       curves in panels, on the axes of axes.py; finish.py adds knees and plateaus
cells        heat maps
bars         bars of parts
findings     what titles say
records      what all charts have, which rows they take, and what of them their marks show
naming       the names of curves, panels and bars
"""
