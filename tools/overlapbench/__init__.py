"""Reading and drawing the results of overlapbench, shared by the command lines in `tools/`.

names   what a benchmark's name says: family, workloads, axes
result  result files, validated: the one door through which every tool reads
series  rows grouped into curves: their labels, and the knee of a curve
theme   colours, fonts and sizes of all charts, light and dark
charts  one chart a file: which rows it takes, and its specification;
        curves, panels and sweep hold what several share
chart   the table of charts, and how an entry becomes pictures
page    the HTML page that holds all charts and needs no network
output  files written whole or not at all

torch_kernels  our kernels on PyTorch's tensors
peers          what tools/peers.py measures: our kernels against others
"""
