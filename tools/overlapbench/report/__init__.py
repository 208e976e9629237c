"""The report: one page for a run, made of the charts and tables that the other modules know.

runs        result files as runs: launches of one build, reduced to their medians; their warnings
tables      a section a family: its columns, its rows as they are shown, what stands out
summary     what stands at the top and at the bottom: worst figures, causes, changes, machines
tuned       what the tuner found, and timelines: what was traced
render      all of it into page.html, with style.css and tables.js inside, and ../charts.js
"""
