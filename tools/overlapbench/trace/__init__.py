"""Where the time of a step goes, from a trace: tools/trace_breakdown.py and tools/timeline.py.

intervals  sets of time intervals: union, intersection, difference, length; all exact
model      spans, windows, and the trace of one rank
rules      which class a span has: the table of patterns, and the user's own
windows    what a step is on the device: from annotations of the host, or the device
arrows     who waited for whom, in our own trace files
kineto     reads PyTorch's profiler and our own trace files
nsys       reads `nsys export --type sqlite`
files      reads files of either kind, as the ranks of one run
idle       why the device was idle
breakdown  the shares of a window by class, and of idle by cause
patterns   what is known to cost time, with one line of advice each
timeline   one step of all ranks, ready to be drawn
path       the longest path through it
bars       where bars are, and what is written on them
picture    the picture of timelines
arguments  what the command lines that read traces have in common
report     the figures as text and as JSON
"""
