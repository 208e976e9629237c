"""Where the time of a step goes, from a trace: overlapbench trace and overlapbench timeline.

intervals    sets of time intervals: union, intersection, difference, length; all exact
model        spans, windows, and the trace of one rank
rules        the class of a span: the table of patterns, and the user's own
windows      steps on the device, from annotations of the host or the device
packed       the text of files, unpacked while it is read
events       the events of a JSON trace, one after the other
processes    the processes and devices in a file: which launched what, and which are ranks
plausible    leaves out what cannot have been
kineto       reads PyTorch's profiler and our own trace files
nsys         reads `nsys export --type sqlite`
files        reads files of any kind, as the ranks of one run
collectives  which kernels are one collective, and how long each waited for the last rank
idle         why the device was idle
breakdown    the shares of a window by class, and of idle by cause
patterns     known causes of lost time, with one line of advice each
waits        who waits for whom in traces of PyTorch's profiler, where they state it
path         who waited for whom in our own traces, and the longest path through a step
"""
