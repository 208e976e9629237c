"""The report: one page for a run, made of the charts and tables that the other modules know.

runs        result files as runs: launches of one build, reduced to their medians
tables      a section's rows, formatted
summary     what stands at the top and at the bottom: runs, worst figures, changes, machines
render      all of it into page.html, with style.css and tables.js inside, and ../charts.js
"""
