"""Start a simulated engine: `python -m engines.sim vllm|sglang [--simulate JSON] FLAGS`."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from collections.abc import Sequence

from engines.sim import options
from engines.sim.dialects import DIALECTS, boot
from engines.sim.life import live
from engines.sim.options import Simulate
from engines.sim.say import say
from engines.sim.setup import RefusalError

_USAGE = "usage: python -m engines.sim vllm|sglang [--simulate JSON] [--speed X] FLAGS..."


def main(argv: Sequence[str]) -> int:
    """Start what `argv` names; return the exit code."""
    if argv and argv[0] in ("-h", "--help"):
        sys.stdout.write(f"{_USAGE}\n\nKeys of JSON. {inspect.getdoc(Simulate)}\n")
        return 0
    if not argv or argv[0] not in DIALECTS:
        sys.stderr.write(_USAGE + "\n")
        return 2
    try:
        simulate, flags = _own(argv[1:])
        return live(*boot(argv[0], flags, simulate))
    except ValueError as error:
        sys.stderr.write(f"{_USAGE}\nengines.sim: error: {error}\n")
        return 2
    except RefusalError as refusal:
        say(refusal.lines)
        return refusal.code


def _own(argv: Sequence[str]) -> tuple[Simulate, list[str]]:
    """Take our own two flags out of the engine's."""
    simulate, rest, words = Simulate(), [], list(argv)
    speed: float | None = None
    while words:
        word, equals, value = words.pop(0).partition("=")
        if word not in ("--simulate", "--speed"):
            rest.append(word + equals + value)
            continue
        value = value if equals else words.pop(0) if words else ""
        if word == "--simulate":
            simulate = options.read(value)
        else:
            speed = float(value)
    return (simulate if speed is None else dataclasses.replace(simulate, speed=speed)), rest


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
