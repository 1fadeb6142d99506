"""A night: blocks of several experiments, held against earlier nights on one page."""
