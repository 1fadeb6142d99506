"""Effects that a rehearsal on the real engines must show, judged from its stored rows.

A CPU says nothing of a GPU's speed, yet the mechanisms are the same: a prefix cache saves time to
first token, a schema is obeyed, a smaller chunk shortens stalls where chunks mix.
"""

from __future__ import annotations

from dataclasses import dataclass

ENGINES = ("vllm", "sglang")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One effect on one engine.

    Attributes:
        experiment: whose rehearsal shows it.
        name: of the effect, with its engine.
        seen: the figures.
        bound: what they must keep.
        holds: whether they do; None where nothing measured it.
    """

    experiment: str
    name: str
    seen: str
    bound: str
    holds: bool | None

    @property
    def line(self) -> str:
        """Return it as one line."""
        word = {True: "ok", False: "MISSED", None: "not measured"}[self.holds]
        return f"{word:<12}  {self.experiment}: {self.name}: {self.seen} ({self.bound})"


def unmeasured(experiment: str, name: str, bound: str, why: str) -> Effect:
    """Return an effect that no stored row shows."""
    return Effect(experiment=experiment, name=name, seen=why, bound=bound, holds=None)
