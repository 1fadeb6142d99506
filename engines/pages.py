"""What both engines' pages share: reading JSON and Prometheus samples without trusting them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from engines import Fact, Probe, Sample, Value
from engines.facts import AS_STORED

GIB: Final = 2**30


def json_of(text: str) -> dict[str, Any]:
    """Return a JSON object; empty for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def at(page: object, path: str) -> object:
    """Return what stands at `a.b.c`, None where the page has another form."""
    for name in path.split("."):
        if not isinstance(page, dict):
            return None
        page = page.get(name)
    return page


def facts_at(
    page: object, source: str, paths: Iterable[tuple[str, str]], rank: str = ""
) -> Iterator[Fact]:
    """Yield a fact for each (name, path) that holds a number, a word or a switch."""
    for name, path in paths:
        value = at(page, path)
        if isinstance(value, int | float | str):
            yield Fact(name=name, value=value, source=source, rank=rank, text=path)


def weights_at(page: object, path: str) -> Iterator[Fact]:
    """Yield what is applied to the weights by a page that names a quantization, or none."""
    holder, _, name = path.rpartition(".")
    found = at(page, holder) if holder else page
    if isinstance(found, dict) and isinstance(found.get(name, 0), str | None):
        value = found[name] or AS_STORED
        yield Fact(name="weights", value=value, source="server_info", text=path)


def bytes_of_gib(size: object) -> int | None:
    """Return bytes of a size in GiB, None for what is no number."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        return None
    return round(size * GIB)


def models_probe() -> Probe:
    """Return the probe of the OpenAI model list, which both engines extend by the context."""
    return Probe(path="/v1/models", source="models", read=_models)


def _models(text: str) -> tuple[Fact, ...]:
    models = json_of(text).get("data")
    first = models[0] if isinstance(models, list) and models else None
    return tuple(facts_at(first, "models", (("context_tokens", "max_model_len"),)))


def value_of_label(text: str) -> Value | None:
    """Return what a Prometheus label spells: a switch, a number or a word; None for `None`."""
    if text in ("None", ""):
        return None
    if text in ("True", "False"):
        return text == "True"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def totals(
    samples: Iterable[Sample], names: Mapping[str, tuple[str, ...]], wanted: Callable[..., float]
) -> dict[str, float]:
    """Return each counter that the page bears, its series put together by `wanted`.

    Args:
        samples: the page.
        names: for each of our names the engine's names, the first found counts.
        wanted: puts a list of values together (`sum`, mean).
    """
    series: dict[str, list[float]] = {}
    for sample in samples:
        series.setdefault(sample.name, []).append(sample.value)
    found = {
        ours: next((series[name] for name in theirs if name in series), None)
        for ours, theirs in names.items()
    }
    return {ours: float(wanted(values)) for ours, values in found.items() if values}


def mean(values: list[float]) -> float:
    """Return the arithmetic mean."""
    return sum(values) / len(values)
