"""Findings: what to change, what it saves, and the figures that say so.

finding  a finding, how much it saves, and which findings are shown
rules    the rules for rows: two that differ in one setting, or one beyond a limit
energy   whether hiding communication saves energy, or only time
steps    the rules for traces of steps
apply    how each setting is made today, in PyTorch and other libraries (docs/apply.md)

A finding is shown only if the interval of what it saves lies above what matters (LEAST).
"""
