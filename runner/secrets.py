"""Secrets are known by name; their values are taken out of everything that is kept or printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ALWAYS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "OPENAI_API_KEY", "VLLM_API_KEY", "SGLANG_API_KEY")
_SHORTEST = 4
"""A shorter value is too common a word to be replaced wherever it stands."""


@dataclass(frozen=True, slots=True)
class Redactor:
    """Replaces secret values by their names."""

    values: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, names: Iterable[str], environment: Mapping[str, str]) -> Redactor:
        """Return a redactor for the named variables that the environment holds."""
        known = {name: environment.get(name, "") for name in (*names, *ALWAYS)}
        found = ((value, name) for name, value in known.items() if len(value) >= _SHORTEST)
        return cls(tuple(sorted(found, key=lambda pair: -len(pair[0]))))

    def text(self, text: str) -> str:
        """Return the text with each secret value replaced by `<NAME>`."""
        for value, name in self.values:
            text = text.replace(value, f"<{name}>")
        return text

    def line(self, line: bytes) -> bytes:
        """Return a log line with each secret value replaced by `<NAME>`."""
        for value, name in self.values:
            line = line.replace(value.encode(), f"<{name}>".encode())
        return line
