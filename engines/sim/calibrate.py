"""Fit a GPU profile to measured figures: `python -m engines.sim.calibrate FIGURES.toml`.

Prints each figure beside what the simulated engine makes of it, first those it was fitted to, then
those it only predicts, with the error of each. `--write FILE` writes the profile; `--check` fits
nothing and holds the present profile against the figures.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engines.sim import figures as files
from engines.sim import profile as profiles
from engines.sim import scenarios
from engines.sim.figures import Figure, Figures
from engines.sim.profile import Profile

NEAR_RATIO: Final = 0.25
"""A figure further off is called far."""
_EXPLAINED_RATIO: Final = 0.15
"""A median TTFT further off is shown with other numbers of requests a stream."""


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 when every figure is near enough (25 %), else 1."""
    asked = _arguments(argv)
    figures = files.read(asked.figures.read_text())
    profile = profiles.load(asked.gpu or figures.gpu)
    if not asked.check:
        from engines.sim.fitting import fitted  # scipy is slow to import

        profile = fitted(figures, profile)
        source = f"fitted to {asked.figures.name} by engines.sim.calibrate"
        profile = dataclasses.replace(profile, source=source)
    errors = dict(errors_of(figures, profile))
    text = toml(dataclasses.replace(profile, errors=errors))
    if asked.write:
        asked.write.write_text(text)
    lines = list(report(figures, profile))
    sys.stdout.write("\n".join([*lines, "", text]))
    return 0 if all("FAR" not in line for line in lines) else 1


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m engines.sim.calibrate", description=__doc__)
    parser.add_argument("figures", type=Path, help="TOML file of measured figures")
    parser.add_argument("--gpu", help="profile to begin from; by default the file's")
    parser.add_argument("--write", type=Path, help="write the fitted profile here")
    parser.add_argument("--check", action="store_true", help="fit nothing")
    return parser.parse_args(argv)


def report(figures: Figures, profile: Profile) -> Iterator[str]:
    """Yield a line for each figure: measured, simulated, error."""
    yield f"{'':10}{'error':>8}  {'measured':<18}{'simulated':<24}figure"
    for figure, simulated in _held(figures, profile):
        yield _line(figure, simulated) + _waves(figures, figure, profile, simulated)


def errors_of(figures: Figures, profile: Profile) -> Iterator[tuple[str, float]]:
    """Yield each measure with its largest error among the figures, fitted ones too."""
    held = list(_held(figures, profile))
    for measure in dict.fromkeys(figure.measure for figure, _ in held):
        found = [abs(f.error_ratio(simulated)) for f, simulated in held if f.measure == measure]
        yield measure, round(max(found), 3)


def _held(figures: Figures, profile: Profile) -> Iterator[tuple[Figure, tuple[float, ...]]]:
    """Yield each figure with what the simulated engine makes of it, the fitted ones first."""
    from engines.sim.fitting import quiet

    calm, kept = quiet(profile), {}  # type: ignore[var-annotated]
    for fit in (True, False):
        for figure in figures.figures:
            if figure.fit == fit and figure.measure != "kv_tokens_seen":
                yield figure, scenarios.predict(figures, figure, calm, kept)


def _line(figure: Figure, predicted: tuple[float, ...]) -> str:
    error = figure.error_ratio(predicted)
    kind = "fitted" if figure.fit else "predicted"
    far = " FAR" if abs(error) > NEAR_RATIO else ""
    shown = " ".join(f"{value:.5g}" for value in predicted)
    model = "" if "1.7B" in figure.model else f" ({figure.model})"
    return f"{kind:10}{error:>+8.1%}  {figure.said:<18}{shown:<24}{figure.name}{model}{far}"


def _waves(figures: Figures, figure: Figure, profile: Profile, predicted: tuple[float, ...]) -> str:
    """Return how a median TTFT that is off moves with the requests of each stream.

    Where not all requests fit, the first of each stream wait less than the later ones: the median
    lies between two waves, and how many the measured load had may not be known.
    """
    from engines.sim.fitting import quiet

    asked = figures.loads.get(figure.experiment, {}).get("per_stream")
    if figure.measure != "ttft_p50_ms" or not asked:
        return ""
    if abs(figure.error_ratio(predicted)) <= _EXPLAINED_RATIO:
        return ""
    said = []
    for per_stream in (asked // 2, 2 * asked):
        load = {**figures.loads[figure.experiment], "per_stream": per_stream}
        other = dataclasses.replace(figures, loads={**figures.loads, figure.experiment: load})
        values = scenarios.predict(other, figure, quiet(profile))
        said.append(f"{' '.join(f'{value:.5g}' for value in values)} with {per_stream}")
    return f" ({' and '.join(said)} requests a stream; {asked} is assumed)"


def toml(profile: Profile) -> str:
    """Return a profile as the text of its file."""
    own = {f.name: getattr(profile, f.name) for f in dataclasses.fields(profile)}
    engines, errors = own.pop("engines"), own.pop("errors")
    lines = [f"{name} = {_toml(value)}" for name, value in own.items()]
    for engine, overheads in engines.items():
        values = dataclasses.asdict(overheads)
        lines += ["", f"[engines.{engine}]"]
        lines += [f"{name} = {_toml(value)}" for name, value in values.items()]
    if errors:
        lines += ["", "[errors]", *(f"{name} = {value!r}" for name, value in errors.items())]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value.replace('"', "'") + '"'
    return f"{value:.5g}" if isinstance(value, float) else f"{value:_}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
