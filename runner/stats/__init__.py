"""Statistics of restarts: pure functions over boots, one number per boot.

A boot is the unit of replication. Loads and requests are never replicates: `per_boot` makes one
number of a boot's loads before anything here sees it. Ratios and means live on the log scale, so
they are ratios of geometric means. Every result carries its method, n and level; where the boots
cannot answer, the result is a `Refusal` that says why and how many more boots would help.

    interval   t intervals of geometric means and of their ratio, paired by block
    bootstrap  quantiles and arithmetic means over 20 boots or more
    unseen     min-max, and the mode that so few boots may have missed
    share      how often: an exact interval of a count
    groups     boots that differ by a fact, at any n
    split      boots that differ by the metric alone, from 8 boots
    verdict    better, worse, equal within x %, or not enough data
    design     how many boots, which smallest difference, at what cost
    moderated  variances that borrow from the other cells of an engine
    kv         does the KV cache explain the gap
    variance   how much of the spread comes from the restart, and the next plan
    nights     A/A audit, and tonight against earlier nights
    drift      does a figure move from block to block
    changes    since about which night the figures differ
"""
