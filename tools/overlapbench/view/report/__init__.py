"""The report: one page for a run, made of the charts and tables of the other modules.

runs        the files: repeated runs of one build, reduced to their medians
tables      what the page says: a section per family, notable figures, changes, machines
render      fills page.html, including style.css, tables.js and ../charts.js
"""
