"""Predicts what a step takes with other settings, on other networks and on more GPUs.

schedules  what a result says of its rows' schedules, and changed ones
replay     follows a schedule through time
factors    how much two works slow each other down, from their measured pair
traced     a recorded step as a row
links      how long a collective takes alone: measured sizes, more ranks, a network
published  tables that others published, and the law of scale that they give
model      the time of a row under other conditions, its interval and its shares
answers    all combinations of conditions, for the command and for notebooks
"""
