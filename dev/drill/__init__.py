"""Fault drills: the suite's promises about failures, and whether it keeps them.

drills     the table: each fault, and what must happen
job        starts a job of real ranks in its own folder, and waits for its end
leftovers  what a job leaves behind: processes, shared memory, files
verdict    compares a job's end with the promise; no input or output
run        runs drills, several at a time
ends       strikes jobs of ./bench from outside
table      the table of outcomes, in Markdown
"""
