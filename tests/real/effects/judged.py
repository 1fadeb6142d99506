"""Judges of effects. Pure: a frame of figures in, one effect for each engine out.

A shared CPU is noisy: times are judged by medians over requests, boots and repeats. What an engine
counts (hits, tokens, outcomes) is judged row by row.
"""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from tests.real.effects import ENGINES, Effect, unmeasured

CACHED_RATIO = 0.5
"""Later over first TTFT stays under it with the cache."""
UNCACHED_RATIO = (0.8, 1.25)
STALL_RATIO = 0.8
"""The stall under the smallest chunk over that under the largest stays under it."""
DELIVERED_RATIO = 0.98


def prefix(frame: pd.DataFrame) -> Iterator[Effect]:
    """Judge what the cache saves: columns engine, prefix_cache, later_over_first."""
    bounds = {True: f"under {CACHED_RATIO:g}", False: "{:g} to {:g}".format(*UNCACHED_RATIO)}
    for engine in ENGINES:
        for cached, bound in bounds.items():
            name = f"{engine} later over first TTFT, cache {'on' if cached else 'off'}"
            rows = frame[(frame.engine == engine) & (frame.prefix_cache == cached)]
            ratios = rows.later_over_first.dropna()
            if ratios.empty:
                yield unmeasured("prefix_cache", name, bound, "no boot has both")
                continue
            middle, (low, high) = float(ratios.median()), UNCACHED_RATIO
            holds = middle < CACHED_RATIO if cached else low <= middle <= high
            seen = f"{middle:.3f}, median of {len(ratios)} boots"
            yield Effect(experiment="prefix_cache", name=name, seen=seen, bound=bound, holds=holds)


def hits(frame: pd.DataFrame) -> Iterator[Effect]:
    """Judge hits by construction: columns engine, prefix_cache, block_tokens and those of Hits."""
    for engine in ENGINES:
        name = f"{engine} hits against their construction"
        rows = frame[(frame.engine == engine) & frame.prefix_cache]
        block = "/".join(f"{size:g}" for size in rows.block_tokens.unique())
        bound = f"each request within a block or page of {block or '?'} tokens"
        if not rows.requests.sum():
            yield unmeasured("prefix_cache", name, bound, "no request tells its cached tokens")
            continue
        within, requests = int(rows.within.sum()), int(rows.requests.sum())
        seen = (
            f"{within} of {requests} requests,"
            f" {rows.measured_tokens.sum():.0f} of {rows.expected_tokens.sum():.0f} tokens"
        )
        yield Effect(
            experiment="prefix_cache", name=name, seen=seen, bound=bound, holds=within == requests
        )
        off = frame[(frame.engine == engine) & ~frame.prefix_cache]
        if off.requests.sum():
            tokens = int(off.measured_tokens.sum())
            name, seen = f"{engine} hits with the cache off", f"{tokens} tokens"
            yield Effect(
                experiment="prefix_cache", name=name, seen=seen, bound="0", holds=tokens == 0
            )


def structured(frame: pd.DataFrame) -> Iterator[Effect]:
    """Judge constrained answers: columns engine, load, finished, json and valid, counts."""
    bound = "all finished answers"
    for engine in ENGINES:
        name = f"{engine} constrained answers, JSON and valid"
        rows = frame[frame.engine == engine]
        finished = int(rows.finished.sum())
        if not finished:
            yield unmeasured("structured", name, bound, "no constrained answer finished")
            continue
        json, valid = int(rows.json.sum()), int(rows.valid.sum())
        empty = sorted(set(rows[rows.finished == 0].load))
        seen = f"{json} JSON and {valid} valid of {finished} finished, {len(rows)} loads"
        seen += f"; none finished in {', '.join(empty)}" if empty else ""
        holds = json == valid == finished and not empty
        yield Effect(experiment="structured", name=name, seen=seen, bound=bound, holds=holds)


def stalls(frame: pd.DataFrame, experiment: str) -> Iterator[Effect]:
    """Judge stalls where chunks mix: columns engine, mixes, chunk_tokens, stall_s."""
    for engine in ENGINES:
        name = f"{engine} stall of a victim, smallest over largest mixed chunk"
        bound = f"under {STALL_RATIO:g}"
        rows = frame[(frame.engine == engine) & frame.mixes].dropna(subset="stall_s")
        by_chunk = rows.groupby("chunk_tokens").stall_s
        medians = {int(str(chunk)): float(stall_s.median()) for chunk, stall_s in by_chunk}
        if len(medians) < 2:
            why = f"stalls are known at {len(medians)} chunk sizes"
            yield unmeasured(experiment, name, bound, why)
            continue
        ratio = medians[min(medians)] / medians[max(medians)]
        listed = ", ".join(f"{1e3 * medians[c]:.0f} ms at {c}" for c in sorted(medians)[::-1])
        seen = f"{ratio:.2f}: {listed}, medians over {len(rows)} injected prompts"
        holds = ratio < STALL_RATIO
        yield Effect(experiment=experiment, name=name, seen=seen, bound=bound, holds=holds)


def capacity(frame: pd.DataFrame) -> Iterator[Effect]:
    """Judge searches: columns engine, boot, why, level, missed_level, low, high, within_ratio."""
    for engine in ENGINES:
        rows = frame[frame.engine == engine].sort_values("boot")
        rows = rows.astype({"level": float, "missed_level": float})
        name, bound = f"{engine} search ends within its bracket", "every boot"
        if rows.empty:
            yield unmeasured("capacity", name, bound, "no search is stored")
            continue
        inside = (rows.low <= rows.level) & (rows.missed_level <= rows.high)
        close = rows.missed_level <= rows.level * (1 + rows.within_ratio) * (1 + 1e-9)
        ended = (rows.why == "found") & inside & close
        told = zip(rows.level, rows.missed_level, rows.why, strict=True)
        seen = ", ".join(
            f"met {met:.4g}, missed {over:.4g}" + ("" if why == "found" else f" ({why})")
            for met, over, why in told
        )
        holds = bool(ended.all())
        yield Effect(experiment="capacity", name=name, seen=seen, bound=bound, holds=holds)
        yield _repeats(engine, rows[rows.why == "found"])


def _repeats(engine: str, rows: pd.DataFrame) -> Effect:
    """Judge whether boots repeat: all brackets meet once widened by the search's own width."""
    name = f"{engine} boots repeat"
    bound = "largest level met <= smallest level missed x (1 + within_ratio of the search)"
    if len(rows) < 2:
        return unmeasured("capacity", name, bound, f"{len(rows)} boots found theirs")
    met, most = rows.level.max(), rows.missed_level.min() * (1 + rows.within_ratio.iloc[0])
    seen = f"{met:.4g} against {most:.4g}, {len(rows)} boots"
    return Effect(experiment="capacity", name=name, seen=seen, bound=bound, holds=bool(met <= most))


def kv_matched(frame: pd.DataFrame, frozen: int | None) -> Iterator[Effect]:
    """Judge the second stage: columns engine, kv_tokens, one row for each of its boots."""
    for engine in ENGINES:
        name, bound = f"{engine} KV tokens of stage 2", f"{frozen} in all boots, frozen by stage 1"
        rows = frame[frame.engine == engine]
        if rows.empty or frozen is None:
            yield unmeasured("kv_matched", name, bound, "stage 2 did not run")
            continue
        seen = " / ".join("unknown" if pd.isna(one) else f"{one:.0f}" for one in rows.kv_tokens)
        holds = bool((rows.kv_tokens == frozen).all())
        yield Effect(experiment="kv_matched", name=name, seen=seen, bound=bound, holds=holds)


def open_loop(frame: pd.DataFrame) -> Iterator[Effect]:
    """Judge loops: columns engine, load, name, level, level_kind, delivered_ratio, most_flying."""
    for engine in ENGINES:
        own = frame[frame.engine == engine]
        opened = own[own.level_kind == "rate_per_s"]
        name, bound = f"{engine} delivered share of open loads", f"at least {DELIVERED_RATIO:g}"
        shares = opened.groupby("load", sort=False).delivered_ratio.median().dropna()
        if shares.empty:
            yield unmeasured("open_loop", name, bound, "no open load is stored")
            continue
        seen = ", ".join(f"{load} {share:.3f}" for load, share in shares.items())
        holds = bool((shares >= DELIVERED_RATIO).all())
        yield Effect(experiment="open_loop", name=name, seen=seen, bound=bound, holds=holds)
        yield _queue(engine, own)


def _queue(engine: str, own: pd.DataFrame) -> Effect:
    """Judge the most in flight: a closed loop stays at its level, bunched arrivals pile up."""
    name = f"{engine} most in flight"
    bound = "closed at its level, gamma over poisson at the highest rate"
    rates = own[own.level_kind == "rate_per_s"]
    highest = rates[rates.level == rates.level.max()]
    closed = own[own.level_kind == "concurrency"]
    flying = highest.groupby("name").most_flying.median()
    if closed.empty or not {"poisson", "gamma"} <= set(flying.index):
        return unmeasured("open_loop", name, bound, "not all three loops are stored")
    held = bool((closed.most_flying == closed.level).all())
    seen = (
        f"closed {closed.most_flying.median():g} of {closed.level.median():g},"
        f" poisson {flying['poisson']:g}, gamma {flying['gamma']:g}"
    )
    holds = held and bool(flying["gamma"] > flying["poisson"])
    return Effect(experiment="open_loop", name=name, seen=seen, bound=bound, holds=holds)


def boots(frame: pd.DataFrame, experiment: str, engines: tuple[str, ...]) -> Iterator[Effect]:
    """Judge every boot: columns engine, label, outcome, cause, expected, kv_tokens."""
    for engine in engines:
        name, bound = f"{engine} boots", "all as expected, KV tokens known of those done"
        rows = frame[frame.engine == engine]
        if rows.empty:
            yield unmeasured(experiment, name, bound, "no boot is stored")
            continue
        good = rows.expected & (rows.kv_tokens.notna() | (rows.outcome != "done"))
        seen = f"{int(good.sum())} of {len(rows)}"
        bad = rows[~good]
        listed = ", ".join(
            f"{label} {outcome} {cause}".strip()
            for label, outcome, cause in zip(bad.label, bad.outcome, bad.cause, strict=True)
        )
        seen += f"; {listed}" if listed else ""
        holds = bool(good.all())
        yield Effect(experiment=experiment, name=name, seen=seen, bound=bound, holds=holds)


def declared_end(frame: pd.DataFrame) -> Iterator[Effect]:
    """Judge boots whose end is the answer: columns label, outcome, cause, ends, because."""
    name, bound = "sglang refuses host memory that is not there", "the end that the file expects"
    rows = frame[frame.ends.notna()]
    if rows.empty:
        yield unmeasured("hicache", name, bound, "no boot with an expected end is stored")
        return
    told = zip(rows.outcome, rows.cause, strict=True)
    seen = ", ".join(f"{outcome}: {cause or 'no cause'}" for outcome, cause in told)
    asked = ", ".join(
        dict.fromkeys(f"{e}: {b}" for e, b in zip(rows.ends, rows.because, strict=True))
    )
    holds = bool(((rows.outcome == rows.ends) & (rows.cause == rows.because)).all())
    yield Effect(experiment="hicache", name=name, seen=seen, bound=asked, holds=holds)
