"""Which flags a program does not know, by its own help text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_OPTION: Final = re.compile(r"(?:^\s+|,\s*|\[\s*|\|\s*)(--?[A-Za-z][\w.-]*)", re.MULTILINE)

HELP: Final = {"vllm": ("--help=all",), "sglang": ("--help",)}
"""What makes an engine print all its flags."""


def known_flags(help_text: str) -> frozenset[str]:
    """Return the flags that a help text lists, in argparse's layout."""
    return frozenset(found[1] for found in _OPTION.finditer(help_text))


def unknown_flags(argv: Iterable[str], help_text: str) -> tuple[str, ...]:
    """Return the flags of a command line that a help text does not list, in order.

    A text without any flag tells nothing, so nothing is called unknown by it. Flags spelled with
    underscores count as their dashed form, and dotted ones (`--kernel-config.x`) by their first
    part, as vLLM reads them.
    """
    known = known_flags(help_text)
    if not known:
        return ()
    sent = dict.fromkeys(word.split("=")[0] for word in argv if re.match(r"--[A-Za-z]", word))
    return tuple(flag for flag in sent if not _listed(flag, known))


def _listed(flag: str, known: frozenset[str]) -> bool:
    dashed = "--" + flag[2:].replace("_", "-")
    return bool({flag, dashed, dashed.split(".")[0]} & known)
