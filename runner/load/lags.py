"""Durations counted in buckets of under 1 % width: any number of them in little memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

_BITS = 8


def bucket_ns(duration_ns: int) -> int:
    """Return the lower edge of the bucket a duration falls in; negative ones count as 0."""
    if duration_ns < 1 << _BITS:
        return max(duration_ns, 0)
    shift = duration_ns.bit_length() - _BITS
    return duration_ns >> shift << shift


class Lags:
    """How often each duration occurred, with the exact largest one."""

    __slots__ = ("counts", "max_ns")

    def __init__(self, counts: Mapping[int, int] | None = None, max_ns: int = 0) -> None:
        self.counts: Counter[int] = Counter(counts or {})
        self.max_ns = max_ns

    def add(self, durations_ns: Iterable[int]) -> None:
        """Count durations, in nanoseconds."""
        for duration_ns in durations_ns:
            self.counts[bucket_ns(duration_ns)] += 1
            self.max_ns = max(self.max_ns, duration_ns)

    def merge(self, other: Lags) -> None:
        """Count what another one counted."""
        self.counts.update(other.counts)
        self.max_ns = max(self.max_ns, other.max_ns)

    def quantile_s(self, share: float) -> float | None:
        """Return the smallest duration that `share` of all do not exceed; None when empty."""
        rank = share * self.counts.total()
        passed = 0
        for edge_ns, count in sorted(self.counts.items()):
            passed += count
            if passed >= rank:
                return edge_ns / 1e9
        return None

    def largest_s(self) -> float | None:
        """Return the largest duration, None when empty."""
        return self.max_ns / 1e9 if self.counts else None

    def plain(self) -> dict[str, object]:
        """Return it as JSON takes it; `from_plain` reads it back."""
        return {"counts": {str(edge): n for edge, n in self.counts.items()}, "max_ns": self.max_ns}

    @staticmethod
    def from_plain(plain: Mapping[str, object]) -> Lags:
        """Read back what `plain` gave."""
        counts, max_ns = plain["counts"], plain["max_ns"]
        if not isinstance(counts, Mapping) or not isinstance(max_ns, int):
            raise TypeError("not a plain Lags")
        return Lags({int(edge): int(n) for edge, n in counts.items()}, max_ns)
