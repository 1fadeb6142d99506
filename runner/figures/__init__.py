"""What a workload is asked for: pure functions from timelines to figures, one file per workload.

They read what `runner.load` measured and never pool requests over boots: one load in, one answer
out. Times in timelines are nanoseconds; figures are seconds.
"""
