"""Which cells need strictly more device memory than another: where that one died of it, they would.

Two cells are compared only where they differ in nothing but settings of which more needs more. A
fraction is read by the cause: a higher one leaves less beside the KV cache, a lower one less in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from runner.plan.cells import Cell
from runner.plan.identity import digest

GROWING: Final = ("chunk_tokens", "max_running", "context_tokens")
"""More of these never needs less memory."""
BESIDE_KV: Final = frozenset({"oom_load", "oom_warmup", "oom_graph_capture", "oom_serving"})
"""Memory ended beside the KV cache: a larger cache leaves less."""
FOR_KV: Final = frozenset({"kv_no_memory", "kv_too_small_for_max_model_len"})
"""Memory ended for the KV cache: a smaller share makes it worse."""
CAUSES: Final = BESIDE_KV | FOR_KV
_COMPARED: Final = (*GROWING, "memory")


def needs_more(cell: Cell, than: Cell, cause: str) -> bool:
    """Tell whether a cell needs strictly more of what a cause says had ended than another one."""
    if cause not in CAUSES or group_of(cell) != group_of(than):
        return False
    mine, theirs = _needs(cell, cause), _needs(than, cause)
    if mine.keys() != theirs.keys():
        return False
    at_least = all(mine[name] >= theirs[name] for name in mine)
    return at_least and mine != theirs


def group_of(cell: Cell) -> str:
    """Return what cells that can be compared share: everything but the compared settings."""
    keys = cell.keys.model_dump(exclude={*_COMPARED, "expect"}, exclude_none=True)
    return digest([cell.name, cell.launcher, keys])


def predecessors(cells: Sequence[Cell]) -> Iterator[tuple[Cell, list[Cell]]]:
    """Yield each cell that may be skipped, with those whose death under load would skip it."""
    groups: dict[str, list[Cell]] = {}
    for cell in cells:
        groups.setdefault(group_of(cell), []).append(cell)
    for group in groups.values():
        for cell in group:
            smaller = [other for other in group if needs_more(cell, other, "oom_serving")]
            if smaller and cell.keys.expect is None:
                yield cell, smaller


def dominating(
    cell: Cell, cells: Mapping[str, Cell], boots: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """Return the newest death that a cell would share, None where none is known.

    Args:
        cell: the cell to be booted; one whose failure is the answer is never skipped.
        cells: all cells of the plan by `cell_id`.
        boots: stored rows of `boots`, those of the same GPUs only, in the order they ran.
    """
    if cell.keys.expect is not None:
        return None
    latest = {(row["cell_id"], row["boot"]): row for row in boots}
    for row in reversed(latest.values()):
        than = cells.get(row["cell_id"])
        died = row["outcome"] == "failed" and than is not None
        if died and than is not None and needs_more(cell, than, row["cause"] or ""):
            return row
    return None


def _needs(cell: Cell, cause: str) -> dict[str, float]:
    """Return what is compared, by name; more of each needs more."""
    values = {name: getattr(cell.keys, name) for name in GROWING}
    for kind, value in (cell.keys.memory.model_dump() if cell.keys.memory else {}).items():
        lacks_kv = cause in FOR_KV and value is not None
        values[kind] = -value if lacks_kv else value
    return {name: value for name, value in values.items() if value is not None}
