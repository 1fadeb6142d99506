"""The command line of an engine, from the table of its flags: the same names, the same refusals."""

from __future__ import annotations

import argparse
import functools
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Any, NoReturn

KINDS = ("switch", "pair", "whole", "real", "word", "list")


class Parser(argparse.ArgumentParser):
    """An argument parser whose refusals read as the engine's own: usage, error, exit code 2."""

    refusal = ""

    def error(self, message: str) -> NoReturn:
        """Print the refusal and end with code 2."""
        self.exit(2, self.refusal.format(message=message) + "\n")


def read(engine: str, argv: Sequence[str], *, refusal: str) -> dict[str, Any]:
    """Return the flags given, by their first name with underscores; only those given.

    A wrong flag or value ends the process with code 2 and the text `refusal`, in which
    `{message}` stands for argparse's own words.
    """
    parser = Parser(argument_default=argparse.SUPPRESS, add_help=False)
    parser.refusal = refusal
    table = _table(engine)
    choices: dict[str, list[str]] = table["choices"]
    for kind in KINDS:
        for flag in table[kind]:
            _add(parser, kind, flag.split("|"), choices)
    given, rest = parser.parse_known_args(list(argv))
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    return vars(given)


@functools.cache
def names(engine: str) -> frozenset[str]:
    """Return every name of every flag, without dashes; what stands before a dot, too."""
    table = _table(engine)
    groups = [table[kind] for kind in KINDS]
    return frozenset(
        name.lstrip("-") for group in groups for flag in group for name in flag.split("|")
    )


@functools.cache
def _table(engine: str) -> dict[str, Any]:
    file = resources.files(__package__).joinpath(engine, "flags.toml")
    return tomllib.loads(file.read_text())


def _add(
    parser: argparse.ArgumentParser, kind: str, names: list[str], choices: dict[str, list[str]]
) -> None:
    spelled = [name if name.startswith("-") else f"--{name}" for name in names]
    dest = names[0].replace("-", "_")
    if kind == "switch":
        parser.add_argument(*spelled, dest=dest, action="store_true")
    elif kind == "pair":
        parser.add_argument(*spelled, dest=dest, action=argparse.BooleanOptionalAction)
    elif kind == "list":
        parser.add_argument(*spelled, dest=dest, nargs="+")
    else:
        parsed: Any = {"whole": _int, "real": float, "word": str}[kind]
        parser.add_argument(*spelled, dest=dest, type=parsed, choices=choices.get(names[0]))


def _int(text: str) -> int:
    """Read a whole number; `4k` is 4,000, `4K` 4,096 and `auto` -1, as vLLM reads them."""
    if text == "auto":
        return -1
    scale = {"k": 1000, "K": 1024, "m": 10**6, "M": 1 << 20}.get(text[-1:], 1)
    return int(float(text[:-1]) * scale) if scale != 1 else int(text)


_int.__name__ = "int"  # argparse names the type in its refusal
