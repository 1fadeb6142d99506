"""What a constrained answer says: JSON that obeys its schema, by the token. Pure, drawn by seed.

A real model's words are unknown; their form is not. So values are drawn by chance within what the
schema allows, and a token is four characters, as it is of a prompt. Recursion ends by the shortest
lists once an answer is some levels deep.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping
from typing import Any, Final

_TOKEN_CHARACTERS: Final = 4
_DEEP: Final = 6
"""Levels below which lists are as short as they may be."""
_DEEPEST: Final = 40
_LONG: Final = 24
"""Most characters beyond the fewest of a string, most items beyond the fewest of a list by 3."""
_UNKNOWN: Final = frozenset(
    {
        *("allOf", "not", "if", "contains", "dependentSchemas", "format", "multipleOf"),
        *("patternProperties", "propertyNames", "minProperties", "prefixItems"),
        *("unevaluatedProperties", "uniqueItems"),
    }
)
"""Keywords that no answer is written for; engines' grammars refuse most of them as well."""
_ATOM: Final = re.compile(r"(\[[^\]^]+\]|\\[dw]|[\w \-/:,])(?:\{(\d+)(?:,(\d+))?\}|([?*+]))?")
_CLASSES: Final = {"\\d": "[0-9]", "\\w": "[a-z]"}
_COUNTS: Final = {"?": (0, 1), "*": (0, 8), "+": (1, 8)}


class SchemaError(Exception):
    """No answer to this schema is known."""


def json_tokens(schema: Mapping[str, Any], seed: int) -> tuple[str, ...]:
    """Return an answer that obeys a JSON schema, token by token; equal seeds give equal answers.

    Raises:
        SchemaError: it has keywords that no answer is written for, or recurs without end.
    """
    writer = _Writer(schema, random.Random(seed))  # noqa: S311 - no secret
    text = json.dumps(writer.value(schema, 0))
    places = range(0, len(text), _TOKEN_CHARACTERS)
    return tuple(text[place : place + _TOKEN_CHARACTERS] for place in places)


class _Writer:
    def __init__(self, root: Mapping[str, Any], rng: random.Random) -> None:
        self._root = root
        self._rng = rng

    def value(self, schema: Any, depth: int) -> Any:
        """Return a value that a schema allows."""
        if schema is True:
            return {}
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            raise SchemaError("it allows no value that ends")
        if unknown := sorted(_UNKNOWN & schema.keys()):
            raise SchemaError(f"it has the unimplemented keyword {unknown[0]}")
        if "$ref" in schema:
            return self.value(self._at(str(schema["$ref"])), depth + 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._rng.choice(schema["enum"])
        for word in ("anyOf", "oneOf"):
            if word in schema:
                # deep down the first branch, which is where a recursion ends if it is well written
                branches = schema[word]
                return self.value(self._rng.choice(branches[: 1 if depth > _DEEP else None]), depth)
        return self._typed(schema, depth)

    def _at(self, pointer: str) -> Any:
        found: Any = self._root
        try:
            for name in pointer.removeprefix("#").strip("/").split("/") if pointer != "#" else ():
                found = found[name.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError) as error:
            raise SchemaError(f"it refers to {pointer}, which is not in it") from error
        return found

    def _typed(self, schema: Mapping[str, Any], depth: int) -> Any:
        kind = schema.get("type", "object")
        kind = self._rng.choice(kind) if isinstance(kind, list) else kind
        if kind == "object":
            properties: Mapping[str, Any] = schema.get("properties", {})
            missing = [name for name in schema.get("required", ()) if name not in properties]
            names = [*(properties if depth <= _DEEP else schema.get("required", ())), *missing]
            return {n: self.value(properties.get(n, True), depth + 1) for n in names}
        if kind == "array":
            count = self._count(schema, "minItems", "maxItems", 3 if depth <= _DEEP else 0)
            return [self.value(schema.get("items", True), depth + 1) for _ in range(count)]
        if kind == "string":
            return self._string(schema)
        if kind in ("integer", "number"):
            return self._number(schema, kind)
        return {"boolean": self._rng.random() < 0.5, "null": None}[str(kind)]

    def _count(self, schema: Mapping[str, Any], least: str, most: str, beyond: int) -> int:
        low = int(schema.get(least, 0))
        high = min(int(schema.get(most, low + beyond)), low + beyond)
        return self._rng.randint(low, max(low, high))

    def _string(self, schema: Mapping[str, Any]) -> str:
        if "pattern" in schema:
            return self._matching(str(schema["pattern"]))
        count = self._count(schema, "minLength", "maxLength", _LONG)
        return "".join(self._rng.choices("abcdefghij klmnop", k=count))

    def _matching(self, pattern: str) -> str:
        """Return a text that a pattern of characters, classes and counts matches."""
        text = ""
        for atom, low, high, sign in _ATOM.findall(pattern.removeprefix("^").removesuffix("$")):
            least, most = _COUNTS.get(sign, (int(low or 1), int(high or low or 1)))
            one = re.compile(_CLASSES.get(atom, atom))
            allowed = [chr(c) for c in range(32, 127) if one.fullmatch(chr(c))]
            text += "".join(self._rng.choices(allowed, k=self._rng.randint(least, most)))
        if re.search(pattern, text) is None:
            raise SchemaError(f"no text is known that matches {pattern}")
        return text

    def _number(self, schema: Mapping[str, Any], kind: str) -> float:
        low = schema.get("minimum", schema.get("exclusiveMinimum", -1) + 1)
        high = schema.get("maximum", schema.get("exclusiveMaximum", low + 101) - 1)
        if low > high:
            raise SchemaError("no number is between its limits")
        if kind == "integer":
            return self._rng.randint(int(-(-low // 1)), int(high // 1))
        return round(self._rng.uniform(low, high), 2) if high - low >= 1 else low
