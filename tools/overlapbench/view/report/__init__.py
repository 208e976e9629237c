"""The report: one page for a run, made of the charts and tables of the other modules.

runs        result files as runs: launches of one build, reduced to their medians; their warnings
tables      one section per family: its columns, the rows shown, notable figures
summary     the top and the bottom of the page: worst figures, causes, changes, machines
tuned       the tuner's results
render      fills page.html, including style.css, tables.js and ../charts.js
"""
