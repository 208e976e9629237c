"""Reading and drawing the results of overlapbench, shared by the command lines in `tools/`.

source    files, globs and standard input, as JSON that can say where it is wrong
names     what a benchmark's name says: family, workloads, axes
counters  the table of counters that a result carries: units, ranges, which way is better;
          counters.json stands for that of files which have none
result    result files, validated, for charts
launch    result files, validated, for comparing: one file is one launch;
          entries and columns read its rows, the many good ones at once
series    rows grouped into curves: their labels, and the knee of a curve
theme     colours, fonts and sizes of all charts, light and dark
charts    one chart a file: which rows it takes, and its specification;
          curves, panels and sweep hold what several share
chart     the table of charts, and how an entry becomes pictures
compare   comparing two sides of launches, from statistics to outputs
gate      launching two builds in turn, and failing on what is confirmed
history   results over time: the database, trends, changes of level
drill     striking jobs with faults, and holding their end against what is promised
page      the HTML page that holds all charts and needs no network
output    files written whole or not at all

torch_kernels  our kernels on PyTorch's tensors
peers          what tools/peers.py measures: our kernels against others
"""
