"""Doctor: whether a machine overlaps as it should, and which of many machines differs.

rules       the checks as data: rules.toml
recordings  what machines reached: recorded results (references.json), and results of the doctor
visit       runs the program for the rows of the checks
checks      judges a recording, alone or against others of its model
nodes       finds the node that differs among many
"""
