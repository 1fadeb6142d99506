"""Stand-in for SGLang's compiled kernels, whose CPU build is on no package index.

SGLang serves a text model on a CPU without AMX with torch's own operators. It only imports, by
name, kernels for speculative decoding: they can be imported from here and fail when called. Names
of GPU kernels stay absent, for SGLang asks which there are.
"""

from __future__ import annotations

from collections.abc import Callable


def __getattr__(name: str) -> Callable[..., None]:
    if not name.endswith("_cpu"):
        raise AttributeError(f"{__name__} has no {name}")

    def absent(*args: object, **kwargs: object) -> None:
        raise NotImplementedError(f"{__name__}.{name}: this image has no compiled kernels")

    return absent
