"""Which stored columns the tables of a report need: reading a boot's part costs by the column."""

from __future__ import annotations

from typing import Final

_KEYS: Final = {"cell_id", "boot", "attempt"}

_NOT_READ: Final = {
    "boots": {"exit_code", "oom_killed", "gpu_uuids", "server_cpus", "client_cpus", "rehearsal"},
    "facts": {"number", "unit", "line", "at_s", "text"},
}
_LOADS: Final = {
    *_KEYS,
    *("search", "probe", "met", "load", "repeat", "workload", "asked", "level_kind", "level"),
    *("order", "since_ready_s", "flushed"),
    *("prefix_query_tokens", "prefix_hit_tokens", "expected_hit_tokens", "preemptions"),
    *("requests", "ok", "duration_s", "input_tokens", "cached_tokens", "output_tokens"),
    *("output_tokens_per_s", "requests_per_s", "ttft_p50_s", "ttft_p99_s", "ttft_max_s"),
    *("itl_count", "itl_p50_s", "itl_p99_s", "itl_max_s", "tpot_p50_s", "tpot_p99_s"),
    *("e2e_p50_s", "e2e_p99_s", "held_in_flight_ratio", "send_lag_p99_s", "client_lag_p99_s"),
    *("remaining_error_p99_s", "several_chunks_ratio", "cpu_per_token_s", "stamp", "way"),
    *("wire_ttft_error_p99_s", "wire_itl_error_p99_s", "verdict", "doubts"),
}


def wanted(table: str, column: str) -> bool:
    """Tell whether a column of a stored table is needed by any table of a report."""
    if table == "loads":
        return column in _LOADS
    is_floor = table == "boots" and column.startswith("floor_") and column != FLOOR
    return column not in _NOT_READ.get(table, ()) and not is_floor


FLOOR: Final = "floor_itl_error_p99_s"
"""Which figure of the client's floor tells clients apart."""
