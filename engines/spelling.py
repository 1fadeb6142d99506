"""How settings become flags: the rules both engines share. The spellings themselves are data."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from engines import Arguments, Served, Version

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelling:
    """How one setting is spelled in a range of releases.

    Attributes:
        setting: a name of `engines.settings.CATALOGUE`.
        flag: the flag that takes the value; empty where `values` says everything.
        values: values spelled differently. For a value found here: the word that follows `flag`,
            or, where `flag` is empty, all the words to send.
        env: variable that takes the value instead of a flag.
        since: first release that takes it.
        before: first release that no longer does; None when none is known.
        note: what a reader of the plan should know.
        why: why other values cannot be expressed, where `values` says everything.
    """

    setting: str
    flag: str = ""
    values: Mapping[object, str | Words] = field(default_factory=dict)
    env: str = ""
    since: Version = (0,)
    before: Version | None = None
    note: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Always:
    """A flag sent whatever is asked, unless a raw flag of the same name replaces it."""

    words: Words
    since: Version = (0,)
    before: Version | None = None


def holds(version: Version | None, since: Version, before: Version | None) -> bool:
    """Tell whether a release lies in [since, before); an unknown release counts as the newest."""
    if version is None:
        return before is None
    return version >= since and (before is None or version < before)


def spelled(
    engine: str, spellings: Iterable[Spelling], version: Version | None, name: str, value: object
) -> Arguments:
    """Return the flags for one setting; a refusal when this release cannot express it."""
    rows = [row for row in spellings if row.setting == name]
    row = next((row for row in rows if holds(version, row.since, row.before)), None)
    release = f"{engine} {'.'.join(map(str, version))}" if version else engine
    if row is None:
        said = f"{release} has no flag for {name}"
        return Arguments(argv=(), refusals=(f"{said}{_ranges(rows)}; leave it out for {engine}.",))
    if not isinstance(value, bool | int | float | str):
        said = f"{name} takes a number, a word or a switch, not {value!r}."
        return Arguments(argv=(), refusals=(said,))
    notes = (row.note,) if row.note else ()
    if row.env:
        return Arguments(argv=(), env={row.env: str(value)}, notes=notes)
    if not row.flag:
        if value not in row.values:
            takes = row.why or f"it takes {_choices(row.values)}"
            said = f"{release} cannot express {name} = {_toml(value)}: {takes}."
            return Arguments(argv=(), refusals=(said,))
        return Arguments(argv=_words(row.values[value]), notes=notes)
    return Arguments(argv=(row.flag, *_words(row.values.get(value, str(value)))), notes=notes)


def raw_flags(
    engine: str, flags: Mapping[str, object], taken: Sequence[str], *, negated: bool
) -> Arguments:
    """Return raw flags as words.

    A raw flag that a setting already sends, or that the runner itself needs, is refused: one
    would silently win. `negated` says whether `--no-NAME` turns a switch off.
    """
    argv: list[str] = []
    refusals: list[str] = []
    for name, value in flags.items():
        flag = dashed(name)
        if flag in taken:
            refusals.append(
                f"{engine}: the raw flag {flag} is already sent by a setting or by the runner; "
                "keep one of them."
            )
        elif value is False and not negated:
            refusals.append(f"{engine}: {flag} = false cannot be sent; leave it out instead.")
        else:
            argv += _raw(flag, value)
    return Arguments(argv=tuple(argv), refusals=tuple(refusals))


def merged(parts: Iterable[Arguments]) -> Arguments:
    """Return all parts as one, in order."""
    parts = tuple(parts)
    env: dict[str, str] = {}
    for part in parts:
        env |= part.env
    return Arguments(
        argv=tuple(word for part in parts for word in part.argv),
        env=env,
        refusals=tuple(said for part in parts for said in part.refusals),
        notes=tuple(dict.fromkeys(said for part in parts for said in part.notes)),
    )


def always(rows: Iterable[Always], served: Served) -> Arguments:
    """Return what is sent whatever is asked, for this release, less what raw flags replace."""
    replaced = {dashed(name) for name in served.flags}
    argv: list[str] = []
    for row in rows:
        bare = row.words[0].replace("--no-", "--")
        if holds(served.version, row.since, row.before) and not replaced & {row.words[0], bare}:
            argv += row.words
    return Arguments(argv=tuple(argv))


def dashed(name: str) -> str:
    """Return a flag as the command line writes it: `max_num_seqs` -> `--max-num-seqs`."""
    return "--" + name.lstrip("-").replace("_", "-")


def flags_of(argv: Iterable[str]) -> tuple[str, ...]:
    """Return the flags among the words of a command line, without their values."""
    return tuple(word.split("=")[0] for word in argv if word.startswith("--"))


def memory_of(value: object) -> tuple[str, int | float] | None:
    """Return tag and number of a `memory` setting, None when it is not one tagged number."""
    if not isinstance(value, Mapping) or len(value) != 1:
        return None
    ((tag, number),) = value.items()
    if tag not in ("fraction", "kv_tokens", "kv_bytes") or isinstance(number, bool):
        return None
    return (tag, number) if isinstance(number, int | float) and number > 0 else None


def count_of(settings: Mapping[str, object], name: str) -> int | None:
    """Return a whole number of the settings, None where it is absent or something else."""
    value = settings.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _raw(flag: str, value: object) -> list[str]:
    if value is True:
        return [flag]
    if value is False:
        return ["--no-" + flag[2:]]
    if isinstance(value, Mapping):
        return [flag, json.dumps(value)]
    if isinstance(value, list | tuple):
        return [flag, *map(str, value)]
    return [flag, str(value)]


def _words(words: str | Words) -> Words:
    return (words,) if isinstance(words, str) else words


def _choices(values: Mapping[object, object]) -> str:
    return " or ".join(map(_toml, values))


def _toml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else json.dumps(value)


def _ranges(rows: Sequence[Spelling]) -> str:
    first = min((row.since for row in rows), default=None)
    return f" (known from {'.'.join(map(str, first))})" if first else ""
