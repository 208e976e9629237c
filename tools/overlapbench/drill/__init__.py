"""Fault drills: what the suite promises when something fails, and whether it holds.

drills     the table: each fault, and what must happen
job        starts a job of real ranks in a folder of its own, and waits for its end
leftovers  what a job leaves behind: processes, shared memory, files
verdict    holds a job's end against the promise; no input or output
run        runs drills, several at a time
table      the table of what happened, in Markdown
"""
