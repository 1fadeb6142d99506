"""One run held against another: what differs, what moved, what to believe."""
