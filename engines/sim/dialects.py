"""The dialects there are, by the engine's name, and how one of them boots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engines.sim import profile as profiles
from engines.sim.options import Simulate
from engines.sim.profile import Profile
from engines.sim.sglang.dialect import Sglang
from engines.sim.twin import Twin, twin_of
from engines.sim.vllm.dialect import Vllm

DIALECTS: Final[dict[str, type[Vllm] | type[Sglang]]] = {"vllm": Vllm, "sglang": Sglang}


def boot(
    engine: str, argv: Sequence[str], simulate: Simulate, profile: Profile | None = None
) -> tuple[Vllm | Sglang, Twin]:
    """Return an engine's dialect and the twin that its command line makes, not yet started.

    Ends the process with code 2 at a flag the engine does not know.

    Raises:
        KeyError: there is no such engine.
        ValueError: there is no such GPU profile.
        RefusalError: the engine would refuse the model or its length.
    """
    dialect = DIALECTS[engine]()
    gpu = profile or profiles.load(simulate.gpu)
    setup, shape = dialect.setup(argv, simulate, gpu)
    return dialect, twin_of(setup, simulate, gpu, shape)
