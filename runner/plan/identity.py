"""The identities: what was asked (`cell_id`), what it became (`build_id`), what a run answers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def digest(value: object, length: int = 12) -> str:
    """Return the first `length` hex digits of the SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=list)
    return hashlib.sha256(text.encode()).hexdigest()[:length]


def cell_id(asked: Mapping[str, Any]) -> str:
    """Return the identity of what a cell asks; keys without a value do not count."""
    return digest({key: value for key, value in asked.items() if value not in (None, (), {}, [])})


def build_id(image: str, model: str, gpus: tuple[str, ...], driver: str) -> str:
    """Return the identity of what a cell became.

    Args:
        image: image digest, or the program's path and version.
        model: commit, or content hash of a local folder; empty where unknown.
        gpus: GPU names, one for each GPU.
        driver: driver version; empty without GPUs.
    """
    return digest({"image": image, "model": model, "gpus": gpus, "driver": driver})
