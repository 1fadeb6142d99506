"""How long a load waits for a server that says nothing, or an end that does not come."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """Why a load was ended early.

    Attributes:
        phase: `warmup` until the first request of the window was sent, then `load`.
        cause: its word in the catalogue of causes.
        sentence: what happened.
    """

    phase: Literal["warmup", "load"]
    cause: Literal["hang", "stuck", "load_timeout"]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of a load that gets nowhere.

    Attributes:
        silence_s: longest time without a byte on any connection while requests are in flight.
        warmup_s: longest time until the window's first request is sent.
        load_s: longest time of the whole load, its warm-up included.
    """

    silence_s: float = math.inf
    warmup_s: float = math.inf
    load_s: float = math.inf

    def cut(self, *, silent_s: float, lasted_s: float, warms: bool) -> Cut | None:
        """Return why the load must end now, None while it may go on.

        Args:
            silent_s: how long nothing has come; 0 while nothing is in flight.
            lasted_s: how long the load has lasted.
            warms: it is still in its warm-up.
        """
        phase: Literal["warmup", "load"] = "warmup" if warms else "load"
        if silent_s > self.silence_s:
            said = (
                f"the server went silent: nothing came on any connection for over"
                f" {self.silence_s:g} s while requests were in flight"
            )
            return Cut(phase=phase, cause="hang", sentence=said)
        if warms and lasted_s > self.warmup_s:
            said = f"the warm-up took over {self.warmup_s:g} s"
            return Cut(phase=phase, cause="stuck", sentence=said)
        if lasted_s > self.load_s:
            said = f"the load was not done after {self.load_s:g} s"
            return Cut(phase=phase, cause="load_timeout", sentence=said)
        return None


ENDLESS: Final = Patience()
"""Waits for ever."""
