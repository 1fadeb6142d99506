"""Log lines without what others wrapped around them: colours, containers, process and rank tags."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

LONGEST: Final = 64 * 1024
"""Characters of one line that are looked at; the longest configuration line has about 6,000."""

SEAM: Final = "\ue000"
"""Stands where a line end may have cut a word or number: neither half is read as a whole one."""

COLOURS: Final = re.compile(
    r"(?:\x1b|\\u001b|\\x1b|\\033|␛)\[[0-9;?]*[A-Za-z]|\[(?:\d{1,3}(?:;\d{1,3})*)m"
)

_FOREIGN: Final = re.compile(
    r"""\s*(?:
        \d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?
            (?:\s+std(?:out|err)\s+[FP])?(?=\s)      # docker -t, Kubernetes
      | \[\d{4}-\d\d-\d\dT[\d:.,]+(?:Z|[+-]\d\d:?\d\d)?\](?=\s)    # CI
      | [\w.-]+(?:/[\w.-]+)*\s*\|(?=\s)              # Compose and others: NAME |
      | [|│┃║>](?=\s)                                # boxes, tables, quotations
      | \#(?=\s\s)                                   # quoted in a comment
      | (?:vLLM|SGLang)\ STD(?:OUT|ERR):             # wrapped by another program
      | \[(?:pod|container)/[^\]]*\]                 # kubectl --prefix
      | \[[a-z][\w.-]*\](?=\s)                       # a wrapper's own name: [server]
      | \[(?:rank|default)\d+\]:                     # torch, torchrun --tee
      | \[\d+,\d+\]<std(?:out|err)>:                # mpirun --tag-output
      | \d{1,6}(?::(?=\s)|\t)                        # srun --label, grep -n, cat -n
      | [^\t]{1,80}\t[^\t]{1,80}\t(?=\d{4}-)         # gh run view --log
      | (?:[A-Z][a-z]{2}\s+\d{1,2}\ \d\d:\d\d:\d\d\s+)?[\w.-]+\ [\w./-]+\[\d+\]:(?=\s)  # journald
      | -\ [\w.:]+\ -\ (?:DEBUG|INFO|WARNING|ERROR)\ -(?=\s)    # Python's logging, behind a time
      | [\w.]+:[\w.<>]+:\d+\ -(?=\s)                 # loguru, behind a time and a level
      | (?:DEBUG|INFO|WARNING|ERROR)\s+[\w.]+:[\w.]+:\d+(?=\s)   # pytest's live log
      | \(pid=\d+[^()]*\)
    )\s?""",
    re.VERBOSE,
)

_BORDER: Final = re.compile(r"\s+[│┃║]\s*$")

PREFIX: Final = re.compile(
    r"""
    (?P<tags>(?:\((?:[A-Za-z]\w*(?:-\d+)?\s)?[^()=]{0,40}pid=\d+[^()]{0,80}\)\s*)*)
    (?P<level>DEBUG|INFO|WARNING|ERROR|CRITICAL)\ (?P<day>\d\d-\d\d\ \d\d:\d\d:\d\d)
        (?:\.\d+)?\ \[?(?P<file>[\w./-]+):\d+\]\ ?
  | (?P<tag>\((?:[A-Za-z]\w*(?:-\d+)?\s)?[^()=]{0,40}pid=\d+[^()]{0,80}\))\s?
  | \[(?P<time>\d{4}-\d\d-\d\d\ \d\d:\d\d:\d\d)(?:[.,]\d+)?(?P<ranks>(?:\ [A-Z]\w*\d)*)\]\ ?
  | \[(?P<bare>(?:(?:DP|PP|TP|EP|ATTN_CP|ATTN_DP|MOE_DP)\d+\ ?)+|gpu(?:_id)?=\d+)\]\ ?
    """,
    re.VERBOSE,
)

_UVICORN: Final = re.compile(r"(?P<level>INFO|WARNING|ERROR|CRITICAL):\s+")

_PART: Final = re.compile(r"(?:(?<=_)|(?<=\s)|^)([A-Z]+(?:_[A-Z]+)*?)_?(\d+)")
_NAMES: Final = re.compile(r"\(([^()]*?)pid=")
_CORE: Final = re.compile(r"EngineCore_(\d+)\b")
_WORKER: Final = re.compile(r"rank=(\d+)")
_GPU: Final = re.compile(r"gpu(?:_id)?=(\d+)")


@dataclass(frozen=True, slots=True)
class Segment:
    """One message of a line: usually the whole line, several where lines were glued.

    Attributes:
        text: the message.
        rank: part of the server that printed it, as `DP1 TP0`; empty where it bears no tag.
        level: its level, empty where it bears none.
        tag: the process tag it bears, as `(Worker_TP1 pid=12)`.
        time: its time of day, comparable with others of the same engine; empty where none.
        prefixed: it bears a prefix, so it is no continuation of the message before; a process tag
            alone is none, for every line may bear it.
        cut: another line's prefix follows at once, so its end may be missing.
    """

    text: str
    rank: str = ""
    level: str = ""
    tag: str = ""
    time: str = ""
    prefixed: bool = False
    cut: bool = False


def segments(line: str) -> Iterator[Segment]:
    """Yield the messages of one line of a log."""
    line = plain(line[:LONGEST])
    for part in unwrapped(line):
        for piece in part.split("\r"):
            if piece.strip():
                yield from _messages(_stripped(piece))


def plain(text: str) -> str:
    """Return a text without colours, also where copying lost their escape characters."""
    return COLOURS.sub("", text) if "[" in text else text


def unwrapped(line: str) -> list[str]:
    """Return the lines inside a JSON wrapper (Docker, Kubernetes, notebooks, vLLM's own)."""
    start = line.find("{")
    text = line.strip()
    if text.endswith("}") and start >= 0 and '"' in line:
        inner = _json_message(line[start:].strip())
        return [line] if inner is None else inner.split("\n")
    if text.startswith('"') and text.rstrip(",").endswith('"'):
        quoted = _loaded(text.rstrip(","))
        return plain(quoted).split("\n") if isinstance(quoted, str) else [line]
    return [line]


def _json_message(text: str) -> str | None:
    page = _loaded(text)
    if not isinstance(page, dict):
        return None
    inside = page.get("jsonPayload")
    page = inside if isinstance(inside, dict) else page
    for name in ("message", "msg", "log", "MESSAGE", "text", "line", "textPayload"):
        inner = page.get(name)
        if isinstance(inner, str):
            trace = page.get("exc_info")
            return _tag(page) + plain(inner) + (f"\n{trace}" if isinstance(trace, str) else "")
    return None


def _tag(page: dict[str, object]) -> str:
    """Return process and level of a JSON line as they stand before a plain one."""
    process, level = page.get("vllm_process_name"), page.get("levelname")
    tag = f"({process} pid={page.get('process', 0)}) " if process else ""
    told = level in ("ERROR", "CRITICAL") or (process and level in ("INFO", "WARNING"))
    return tag + (f"{level}: " if told else "")


def _loaded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _stripped(text: str) -> str:
    for _ in range(6):
        found = _FOREIGN.match(text)
        if not found:
            break
        text = text[found.end() :]
    return _BORDER.sub("", text)


def _messages(text: str) -> Iterator[Segment]:
    prefixes = list(PREFIX.finditer(text)) if "[" in text or "(" in text or "]" in text else []
    starts = [prefix.start() for prefix in prefixes] + [len(text)]
    if starts[0] > 0 or not prefixes:
        yield _unprefixed(text[: starts[0]], cut=bool(prefixes))
    rank = tag = ""
    for prefix, end in zip(prefixes, starts[1:], strict=True):
        rank, tag = _rank(prefix) or rank, _tag_of(prefix) or tag
        message = text[prefix.end() : end]
        if end < len(text) and not message.strip():
            # two prefixes in a row belong to one message
            continue
        segment = _prefixed(prefix, message, rank, cut=end < len(text))
        yield replace(segment, tag=tag or prefix["file"] or "")
        rank = tag = ""


def _unprefixed(text: str, *, cut: bool) -> Segment:
    uvicorn = _UVICORN.match(text)
    level = uvicorn["level"] if uvicorn else ""
    message = text[uvicorn.end() :] if uvicorn else text
    return Segment(text=message, level=level, prefixed=bool(uvicorn), cut=cut and _torn(message))


def _prefixed(prefix: re.Match[str], message: str, rank: str, *, cut: bool) -> Segment:
    level = prefix["level"] or ""
    uvicorn = None if level else _UVICORN.match(message)
    if uvicorn:
        level, message = uvicorn["level"], message[uvicorn.end() :]
    return Segment(
        text=message,
        rank=rank,
        level=level,
        time=prefix["day"] or prefix["time"] or "",
        prefixed=bool(level or prefix["time"] or prefix["bare"]),
        cut=cut and _torn(message),
    )


def _tag_of(prefix: re.Match[str]) -> str:
    """Return the last of a prefix's tags, which is the engine's own where there are several."""
    text = (prefix["tags"] or prefix["tag"] or "").strip()
    return text[text.rfind("(") :] if text else ""


def _torn(message: str) -> bool:
    return bool(message) and not message[-1].isspace()


def _rank(prefix: re.Match[str]) -> str:
    text = prefix["tags"] or prefix["tag"] or prefix["ranks"] or prefix["bare"] or ""
    if not text:
        return ""
    core = _CORE.search(text)
    if core:
        return f"DP{core[1]}"
    worker = _WORKER.search(text) or _GPU.search(text)
    if worker:
        return f"rank {worker[1]}"
    # of several tags the last one is the engine's own
    for names in reversed(_NAMES.findall(text) or [text]):
        if parts := _PART.findall(names.strip()):
            return " ".join(f"{name}{index}" for name, index in parts)
    return ""
