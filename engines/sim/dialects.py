"""The dialects there are, by the engine's name."""

from __future__ import annotations

from typing import Final

from engines.sim.sglang.dialect import Sglang
from engines.sim.vllm.dialect import Vllm

DIALECTS: Final[dict[str, type[Vllm] | type[Sglang]]] = {"vllm": Vllm, "sglang": Sglang}
