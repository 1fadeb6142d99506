"""The tables on disk: every column with its unit and a sentence, and rows as Arrow tables.

`run` is no column of a file: it is the folder `run=<id>` and appears when a table is read. Sizes
are bytes, times seconds (`_s`) or nanoseconds (`_ns`). The figures and the proof of a load are
columns under the names of `runner.load.figures.Figures` and `runner.load.proof.Proof`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from runner.load.figures import Figures
from runner.load.floor import Floor
from runner.load.proof import Proof
from runner.load.spread import Quantiles

SCHEMA_VERSION: Final = 1

TEXT: Final = pa.string()
WHOLE: Final = pa.int64()
NUMBER: Final = pa.float64()
SWITCH: Final = pa.bool_()
INSTANT: Final = pa.timestamp("us", tz="UTC")
TEXTS: Final = pa.list_(pa.string())
DOUBTS: Final = pa.list_(
    pa.struct([(name, TEXT) for name in ("name", "severity", "subject", "sentence", "advice")])
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column: its Arrow type, its unit (empty for words) and what it means."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str


Row = tuple[str, pa.DataType, str, str]


def _columns(*rows: Row) -> tuple[Column, ...]:
    return tuple(Column(name=n, type=t, unit=u, meaning=m) for n, t, u, m in rows)


_ARROW: Final[dict[str, pa.DataType]] = {
    "int": WHOLE,
    "float": NUMBER,
    "str": TEXT,
    "bool": SWITCH,
    "Mapping[str, int]": TEXT,
    "tuple[int, ...]": pa.list_(WHOLE),
    "tuple[float, ...]": pa.list_(NUMBER),
}
_UNITS: Final = {"_per_s": "1/s", "_ratio": "", "_tokens": "tokens", "_bytes": "bytes", "_s": "s"}


def _recorded(record: type) -> Iterator[Row]:
    """Yield a column for each field of a record, documented where the record documents it.

    The quantiles of `ttft` become `ttft_p50_s` and so on; a mapping is one column of JSON.
    """
    meanings = _attributes(record)
    for field in dataclasses.fields(record):
        kind = str(field.type).removesuffix(" | None")
        if kind == "Quantiles":
            for name, arrow, unit, meaning in _recorded(Quantiles):
                yield f"{field.name}_{name}", arrow, unit, f"{meanings[field.name]}: {meaning}"
        else:
            unit = next((unit for end, unit in _UNITS.items() if field.name.endswith(end)), "")
            yield field.name, _ARROW[kind], unit, meanings[field.name]


def flat(record: Figures | Proof) -> dict[str, Any]:
    """Return a record's columns: nested quantiles by their joined names, mappings as JSON."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        if isinstance(value, Quantiles):
            found |= {f"{field.name}_{k}": v for k, v in dataclasses.asdict(value).items()}
        else:
            found[field.name] = json.dumps(value) if isinstance(value, Mapping) else value
    return found


def _attributes(record: type) -> dict[str, str]:
    """Return the sentences under `Attributes:` of a record's docstring, by attribute."""
    entries = inspect.cleandoc(record.__doc__ or "").partition("Attributes:\n")[2]
    found = re.findall(r"^ {4}(\w+): ((?:.|\n {8})+)", entries, re.MULTILINE)
    return {name: re.sub(r"\s+", " ", sentence).strip().rstrip(".") for name, sentence in found}


_CELL: Final[tuple[Row, ...]] = (("cell_id", TEXT, "", "hash of what the cell asks"),)
_BOOT: Final[tuple[Row, ...]] = (
    *_CELL,
    ("boot", WHOLE, "", "number of the server life within its cell, from 0; -1 is a priming boot"),
    ("attempt", WHOLE, "", "which try at this boot, from 1; later ones follow an interruption"),
)
_LOAD: Final[tuple[Row, ...]] = (
    *_BOOT,
    ("load", TEXT, "", "workload@level"),
    ("repeat", WHOLE, "", "which repeat of the load within its boot, from 0"),
)

CELLS: Final = _columns(
    *_CELL,
    ("label", TEXT, "", "what tells the cell from the others of its experiment"),
    ("name", TEXT, "", "section of the experiment file"),
    ("stage", TEXT, "", "which stage of the experiment; null where it has none"),
    ("engine", TEXT, "", "which engine"),
    ("launcher", TEXT, "", "docker, process or attach"),
    ("image", TEXT, "", "image as written"),
    ("model", TEXT, "", "model as written"),
    ("settings", TEXT, "", "settings as requested, JSON"),
    ("resolved", TEXT, "", "words sent for each setting, JSON"),
    ("flags", TEXTS, "", "all flags as resolved"),
    ("env", TEXT, "", "environment as resolved, without secrets, JSON"),
    ("secrets", TEXTS, "", "names of the secrets handed over"),
    ("gpus", WHOLE, "", "GPUs asked"),
    ("simulated", SWITCH, "", "the simulated engine stands in for the engine"),
    ("rehearsal", SWITCH, "", "the experiment's [rehearse] table was laid over it"),
    ("inapplicable", TEXTS, "", "why the engine cannot express it; empty where it can"),
    ("expected_outcome", TEXT, "", "outcome that is the answer, where one was declared"),
    ("expected_cause", TEXT, "", "cause that is the answer, where one was declared"),
)

BOOTS: Final = _columns(
    *_BOOT,
    ("block", WHOLE, "", "block of the design: one boot of every cell"),
    ("order", WHOLE, "", "place in the run, from 0"),
    ("night", TEXT, "", "night it belongs to; null outside nightly runs"),
    ("build_id", TEXT, "", "hash of what the cell became: image, model, GPUs, driver"),
    ("outcome", TEXT, "", "done, failed, interrupted, skipped"),
    ("expected", SWITCH, "", "the outcome is the one the experiment calls its answer"),
    ("phase", TEXT, "", "phase that failed; null when done"),
    ("cause", TEXT, "", "class of failure, by engines.causes; null when done"),
    ("origin", TEXT, "", "engine, client or host; null when done"),
    ("message", TEXT, "", "what was said of the failure; null when done"),
    ("evidence", TEXTS, "", "log lines that tell the cause"),
    ("exit_code", WHOLE, "", "the server's exit code; null when unknown or still running"),
    ("oom_killed", SWITCH, "", "the kernel killed the server for memory"),
    ("started_at", INSTANT, "", "when the boot began"),
    ("image_s", NUMBER, "s", "finding the image"),
    ("create_s", NUMBER, "s", "creating and starting the server"),
    ("ready_s", NUMBER, "s", "from the start until it named our model and gave a token"),
    ("load_s", NUMBER, "s", "all loads with their warm-ups and flushes"),
    ("stop_s", NUMBER, "s", "from asking it to stop until it was gone"),
    ("release_s", NUMBER, "s", "waiting until GPU memory was free again"),
    ("version", TEXT, "", "release the server states"),
    ("kv_tokens", WHOLE, "tokens", "capacity of the KV cache"),
    ("kv_bytes", WHOLE, "bytes", "memory of the KV cache of one worker"),
    ("weights_bytes", WHOLE, "bytes", "memory of the weights of one worker"),
    ("chunk_tokens", WHOLE, "tokens", "largest prefill chunk"),
    ("max_running", WHOLE, "requests", "most requests that run at once"),
    ("context_tokens", WHOLE, "tokens", "longest input plus output"),
    ("prefix_cache", SWITCH, "", "KV of equal prefixes is reused"),
    ("mixed_chunk", SWITCH, "", "prefill and decode share a step"),
    ("compile_cache", TEXT, "", "cold, warm, or none where no folder is kept between boots"),
    ("image_digest", TEXT, "", "what the image reference was"),
    ("model_build", TEXT, "", "commit of the model, or hash of a local folder"),
    ("gpu_names", TEXTS, "", "GPU names"),
    ("gpu_uuids", TEXTS, "", "GPU UUIDs"),
    ("driver", TEXT, "", "GPU driver version"),
    ("host", TEXT, "", "CPU model, cores and kernel of the machine"),
    ("server_cpus", TEXT, "", "cores the server was given; null for all"),
    ("client_cpus", TEXT, "", "cores the client was given; null for all"),
    ("way", TEXT, "", "how the load reached the server"),
    *((f"floor_{n}", t, u, f"client's floor: {m}") for n, t, u, m in _recorded(Floor)),
    ("simulated", SWITCH, "", "the simulated engine served"),
    ("rehearsal", SWITCH, "", "a rehearsal, no measurement of the question"),
    ("doubts", DOUBTS, "", "reasons not to believe the boot's figures yet"),
)

FACTS: Final = _columns(
    *_BOOT,
    ("name", TEXT, "", "name in the catalogue of facts"),
    ("value", TEXT, "", "what the server said, as text"),
    ("number", NUMBER, "", "the value where it is a number or a switch; null for words"),
    ("unit", TEXT, "", "unit of the number"),
    ("rank", TEXT, "", "which part of the server said it"),
    ("source", TEXT, "", "log, metrics, server_info, models, version or load"),
    ("line", WHOLE, "", "line of the log, from 1"),
    ("at_s", NUMBER, "s", "when the line came, from the server's start"),
    ("text", TEXT, "", "the line or field it was read from"),
)

LOADS: Final = _columns(
    *_LOAD,
    ("workload", TEXT, "", "kind of work"),
    ("asked", TEXT, "", "what decides its work, with what the files it names hold, JSON"),
    ("level_kind", TEXT, "", "concurrency, rate_per_s, speed or burst"),
    ("level", NUMBER, "", "in flight, arrivals per second, times as fast, or at one moment"),
    ("search", TEXT, "", "the search whose probe it is; null for a load of its own"),
    ("probe", WHOLE, "", "which probe of its search, from 0"),
    ("met", SWITCH, "", "the probe met the SLO; null where its figures cannot tell"),
    ("order", WHOLE, "", "place among the loads of its boot, from 0"),
    ("started_at", INSTANT, "", "when its window opened"),
    ("since_ready_s", NUMBER, "s", "age of the server when the window opened"),
    ("flushed", SWITCH, "", "the prefix cache was emptied before it; null when nobody can tell"),
    ("prefix_query_tokens", NUMBER, "tokens", "prompt tokens looked up in the prefix cache"),
    ("prefix_hit_tokens", NUMBER, "tokens", "prompt tokens found in the prefix cache"),
    ("expected_hit_tokens", NUMBER, "tokens", "prompt tokens shared by construction"),
    ("preemptions", NUMBER, "requests", "requests put back for want of KV memory"),
    *_recorded(Figures),
    *_recorded(Proof),
    ("wire_requests", WHOLE, "requests", "requests found on the wire too (exec --audit)"),
    ("wire_ttft_error_p50_s", NUMBER, "s", "TTFT seen against the wire's, absolute, median"),
    ("wire_ttft_error_p99_s", NUMBER, "s", "the same, 99 % quantile or largest of under 100"),
    ("wire_itl_error_p50_s", NUMBER, "s", "gaps seen against the wire's, absolute, median"),
    ("wire_itl_error_p99_s", NUMBER, "s", "the same, 99 % quantile"),
    ("wire_lost", WHOLE, "", "packets the tap lost: their requests are not compared"),
    ("verdict", TEXT, "", "ok, doubtful or void"),
    ("doubts", DOUBTS, "", "reasons not to believe the figures yet"),
)

CAPACITY: Final = _columns(
    *_BOOT,
    ("load", TEXT, "", "which search"),
    ("repeat", WHOLE, "", "which repeat of the search within its boot, from 0"),
    ("level_kind", TEXT, "", "concurrency or rate_per_s"),
    ("level", NUMBER, "", "highest level that met the SLO; null when even the lowest missed"),
    ("missed_level", NUMBER, "", "lowest level that missed; null when even the highest met"),
    ("requests_per_s", NUMBER, "1/s", "requests served per second at the level that met"),
    ("why", TEXT, "", "found, below_range, above_range, or unknown where a probe cannot tell"),
    ("probes", WHOLE, "", "loads that were tried"),
    ("slo", TEXT, "", "what a level had to keep"),
)

REQUESTS: Final = _columns(
    *_LOAD,
    ("request", WHOLE, "", "number within the load, from 0, in the order asked"),
    ("group", TEXT, "", "what belongs together: a prefix, a session"),
    ("role", TEXT, "", "victim, injected, background, or empty"),
    ("warmup", SWITCH, "", "sent before the window"),
    ("intended_ns", WHOLE, "ns", "when it was due, from the window's opening; null in closed loop"),
    ("sent_ns", WHOLE, "ns", "just before it was written, from the window's opening"),
    ("first_ns", WHOLE, "ns", "first chunk that carries a token, from the window's opening"),
    ("last_ns", WHOLE, "ns", "last chunk that carries a token, from the window's opening"),
    ("ended_ns", WHOLE, "ns", "end of the answer, from the window's opening"),
    ("chunk_ns", pa.list_(WHOLE), "ns", "each chunk with tokens, from the window's opening"),
    ("chunk_tokens", pa.list_(pa.int32()), "tokens", "tokens of each of those chunks"),
    ("stamp", TEXT, "", "whose clock the chunks bear: kernel or user"),
    ("input_tokens", WHOLE, "tokens", "prompt length by the server's count"),
    ("output_tokens", WHOLE, "tokens", "output length by the server's count"),
    ("cached_tokens", WHOLE, "tokens", "prompt tokens from the prefix cache by the server's count"),
    ("outcome", TEXT, "", "ok, or the class of failure"),
    ("detail", TEXT, "", "status, error text or lengths of a failure"),
    ("answer", TEXT, "", "what was answered, where the workload keeps it; null when not kept"),
    ("answer_ids", pa.list_(pa.int32()), "", "token ids of the answer; null when not known"),
)

GPU: Final = _columns(
    *_BOOT,
    ("at", INSTANT, "", "when"),
    ("uuid", TEXT, "", "which GPU"),
    ("memory_used_bytes", WHOLE, "bytes", "memory in use"),
    ("utilisation_ratio", NUMBER, "", "share of time with a kernel running"),
    ("sm_clock_hz", NUMBER, "Hz", "clock of the multiprocessors"),
    ("power_w", NUMBER, "W", "power drawn"),
    ("temperature_c", NUMBER, "°C", "temperature"),
    ("throttle", TEXTS, "", "reasons for a lowered clock"),
)

METRICS: Final = _columns(
    *_LOAD,
    ("at", INSTANT, "", "when the server's metrics page was read, once a second under load"),
    ("running", NUMBER, "requests", "requests that run"),
    ("waiting", NUMBER, "requests", "requests in the server's queue"),
    ("kv_used_ratio", NUMBER, "", "share of the KV cache in use"),
    ("accepted_ratio", NUMBER, "", "share of drafted tokens that were accepted (speculation)"),
    ("preemptions", NUMBER, "requests", "put back for want of KV memory since the first reading"),
    ("output_tokens", NUMBER, "tokens", "generated since the first reading"),
    ("draft_tokens", NUMBER, "tokens", "drafted since the first reading"),
    ("accepted_tokens", NUMBER, "tokens", "drafts accepted since the first reading"),
)

EVENTS: Final = _columns(
    ("at", INSTANT, "", "when"),
    *_BOOT,
    ("event", TEXT, "", "what happened"),
    ("detail", TEXT, "", "the particulars"),
)

TABLES: Final[dict[str, tuple[Column, ...]]] = {
    "cells": CELLS,
    "boots": BOOTS,
    "facts": FACTS,
    "loads": LOADS,
    "capacity": CAPACITY,
    "requests": REQUESTS,
    "gpu": GPU,
    "metrics": METRICS,
    "events": EVENTS,
}


def schema(table: str) -> pa.Schema:
    """Return a table's Arrow schema; units and meanings are in its fields' metadata."""
    fields = [
        pa.field(c.name, c.type, metadata={"unit": c.unit, "meaning": c.meaning})
        for c in TABLES[table]
    ]
    return pa.schema(fields, metadata={"schema": str(SCHEMA_VERSION), "table": table})


def to_arrow(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Return rows as an Arrow table; a key that is missing is null.

    Its fields carry no sentences: in a part of one row those would be three quarters of the file,
    and most of the time that reading it takes.

    Raises:
        KeyError: a row has a key that is no column.
    """
    columns = [column.name for column in TABLES[table]]
    listed = list(rows)
    for row in listed:
        if unknown := row.keys() - set(columns):
            raise KeyError(f"{table} has no column {', '.join(sorted(unknown))}")
    filled = [{name: row.get(name) for name in columns} for row in listed]
    bare = [field.remove_metadata() for field in schema(table)]
    marks = pa.schema(bare).with_metadata(schema(table).metadata or {})
    return pa.Table.from_pylist(filled, schema=marks)
