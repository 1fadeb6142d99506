"""Start a simulated engine: `python -m engines.sim vllm|sglang [--simulate JSON] FLAGS`."""

from __future__ import annotations

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
        simulate, flags = options.taken_from(argv[1:])
        return live(*boot(argv[0], flags, simulate))
    except ValueError as error:
        sys.stderr.write(f"{_USAGE}\nengines.sim: error: {error}\n")
        return 2
    except RefusalError as refusal:
        say(refusal.lines)
        return refusal.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
