"""How long a load waits for a server that says nothing, or a warm-up that does not end."""

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
    cause: Literal["hang", "stuck"]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """The limits of a load that gets nowhere.

    Attributes:
        silence_s: longest time without a byte on any connection while requests are in flight.
        warmup_s: longest time until the window's first request is sent.
    """

    silence_s: float = math.inf
    warmup_s: float = math.inf

    def cut(self, *, silent_s: float, warming_s: float | None) -> Cut | None:
        """Return why the load must end now, None while it may go on.

        Args:
            silent_s: how long nothing has come; 0 while nothing is in flight.
            warming_s: how long the warm-up has lasted; None once it is over.
        """
        phase: Literal["warmup", "load"] = "load" if warming_s is None else "warmup"
        if silent_s > self.silence_s:
            said = (
                f"the server went silent: nothing came on any connection for over"
                f" {self.silence_s:g} s while requests were in flight"
            )
            return Cut(phase=phase, cause="hang", sentence=said)
        if warming_s is not None and warming_s > self.warmup_s:
            said = f"the warm-up took over {self.warmup_s:g} s"
            return Cut(phase=phase, cause="stuck", sentence=said)
        return None


ENDLESS: Final = Patience()
"""Waits for ever."""
