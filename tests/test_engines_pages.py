"""What servers' pages state: facts, counters, and whether a flush was one."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engines
from engines import Fact, Sample, Sampling
from engines.facts import CATALOGUE, COUNTERS
from runner.boots.pages import Caller, flush


def page(engine: str, path: str, body: object) -> dict[str, Any]:
    """Return the facts of one page as name -> value, ranks left out."""
    (probe,) = [each for each in engines.get(engine).probes if each.path.startswith(path)]
    facts = probe.read(body if isinstance(body, str) else json.dumps(body))
    return {fact.name: fact.value for fact in facts if not fact.rank}


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name=name, labels=labels, value=value)


def by_name(facts: tuple[Fact, ...]) -> dict[str, Any]:
    return {fact.name: fact.value for fact in facts}


VLLM_INFO = {
    "vllm_config": {
        "scheduler_config": {
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 64,
            "enable_chunked_prefill": True,
        },
        "model_config": {"max_model_len": 4096, "dtype": "torch.bfloat16", "quantization": None},
        "cache_config": {"cache_dtype": "auto", "enable_prefix_caching": True, "block_size": 16},
        "parallel_config": {"tensor_parallel_size": 1},
    }
}
SGLANG_INFO = {
    "version": "0.5.23",
    "chunked_prefill_size": 8192,
    "max_running_requests": 999,
    "max_prefill_tokens": 16384,
    "disable_radix_cache": True,
    "enable_mixed_chunk": False,
    "page_size": 1,
    "tp_size": 1,
    "dp_size": 2,
    "max_total_num_tokens": 100,
    "internal_states": [
        {
            "effective_max_running_requests_per_dp": 33,
            "memory_usage": {"weight": 1.5, "kvcache": 2.25, "token_capacity": 100},
        },
        {
            "effective_max_running_requests_per_dp": 33,
            "memory_usage": {"weight": 1.5, "kvcache": 2.25, "token_capacity": 90},
        },
    ],
}


def test_vllms_chunk_and_limits_are_read_where_the_log_is_silent() -> None:
    facts = page("vllm", "/server_info", VLLM_INFO)
    assert facts["chunk_tokens"] == 2048
    assert facts["max_running"] == 64
    assert facts["context_tokens"] == 4096
    assert facts["mixed_chunk"] is True
    assert facts["weights"] == "as_stored"


def test_the_text_form_of_older_releases_states_nothing() -> None:
    assert page("vllm", "/server_info", {"vllm_config": "model='x', max_seq_len=1"}) == {}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_model_list_states_the_context(engine: str) -> None:
    body = {"data": [{"id": "m", "max_model_len": 4096}]}
    assert page(engine, "/v1/models", body) == {"context_tokens": 4096}


def test_vllm_states_its_release() -> None:
    assert page("vllm", "/version", {"version": "0.32.0"}) == {"version": "0.32.0"}


def test_sglangs_effective_limits_are_read_per_rank_and_summed() -> None:
    facts = page("sglang", "/server_info", SGLANG_INFO)
    assert facts["kv_tokens"] == 190
    assert facts["chunk_tokens"] == 8192
    assert facts["prefix_cache"] is False
    assert "max_running" not in facts
    (probe,) = [p for p in engines.get("sglang").probes if p.path == "/server_info"]
    ranked = [fact for fact in probe.read(json.dumps(SGLANG_INFO)) if fact.name == "max_running"]
    assert [(fact.rank, fact.value) for fact in ranked] == [("DP0", 33), ("DP1", 33)]


def test_what_was_only_asked_of_sglang_is_no_limit_in_force() -> None:
    facts = page("sglang", "/server_info", {"max_running_requests": 999})
    assert "max_running" not in facts


def test_chunking_switched_off_is_no_chunk_size() -> None:
    facts = page("sglang", "/server_info", {"chunked_prefill_size": -1})
    assert facts == {"chunked_prefill": False}


def test_the_flat_page_of_older_releases_states_the_capacity() -> None:
    facts = page("sglang", "/get_server_info", {"dp_size": 1, "max_total_num_tokens": 5})
    assert facts["kv_tokens"] == 5


def test_the_capacity_of_one_rank_is_not_that_of_several() -> None:
    facts = page("sglang", "/server_info", {"dp_size": 2, "max_total_num_tokens": 5})
    assert "kv_tokens" not in facts


pages = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "data",
                    "vllm_config",
                    "cache_config",
                    "internal_states",
                    "memory_usage",
                    "version",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(pages)
def test_a_page_of_another_form_states_nothing_wrong(body: object) -> None:
    for name in engines.names():
        for probe in engines.get(name).probes:
            for fact in probe.read(json.dumps(body)):
                assert fact.name in CATALOGUE


@given(st.text(max_size=200))
def test_a_page_that_is_no_json_states_nothing(body: str) -> None:
    for name in engines.names():
        for probe in engines.get(name).probes:
            probe.read(body)


def test_vllms_metrics_state_the_cache() -> None:
    info = sample(
        "vllm:cache_config_info",
        1,
        engine="0",
        block_size="16",
        num_gpu_blocks="100",
        enable_prefix_caching="True",
        cache_dtype="auto",
        kv_cache_size_tokens="1600",
        kv_cache_memory_bytes="None",
    )
    facts = by_name(engines.get("vllm").metrics_facts([info]))
    assert facts["kv_tokens"] == 1600
    assert (facts["block_tokens"], facts["kv_blocks"]) == (16, 100)
    assert facts["prefix_cache"] is True


def test_the_capacity_is_not_made_of_blocks_where_it_is_not_stated() -> None:
    info = sample("vllm:cache_config_info", 1, block_size="16", num_gpu_blocks="100")
    assert "kv_tokens" not in by_name(engines.get("vllm").metrics_facts([info]))


def test_the_capacity_of_several_engines_is_summed() -> None:
    infos = [
        sample("vllm:cache_config_info", 1, engine=str(number), kv_cache_size_tokens="100")
        for number in range(2)
    ]
    facts = engines.get("vllm").metrics_facts(infos)
    assert [fact.value for fact in facts if fact.name == "kv_tokens"] == [200]
    assert {fact.rank for fact in facts if fact.name == "engine_kv_tokens"} == {"DP0", "DP1"}


def test_the_largest_step_is_observed_between_two_bounds() -> None:
    counts = {"256.0": 5.0, "512.0": 7.0, "1024.0": 7.0, "+Inf": 7.0}
    buckets = [
        sample("vllm:iteration_tokens_total_bucket", count, le=bound)
        for bound, count in counts.items()
    ]
    facts = engines.get("vllm").metrics_facts(buckets)
    assert by_name(facts) == {"step_over_tokens": 256, "step_at_most_tokens": 512}
    assert {fact.source for fact in facts} == {"load"}


def test_without_a_step_nothing_is_observed() -> None:
    buckets = [sample("vllm:iteration_tokens_total_bucket", 0, le="256.0")]
    assert engines.get("vllm").metrics_facts(buckets) == ()


def test_sglangs_metrics_count_one_series_per_rank() -> None:
    series = [
        sample("sglang:max_total_num_tokens", 100, tp_rank="0", dp_rank="0"),
        sample("sglang:max_total_num_tokens", 100, tp_rank="1", dp_rank="0"),
        sample("sglang:max_total_num_tokens", 90, tp_rank="2", dp_rank="1"),
        sample("sglang:page_size", 64, tp_rank="0"),
    ]
    facts = by_name(engines.get("sglang").metrics_facts(series))
    assert (facts["kv_tokens"], facts["block_tokens"]) == (190, 64)


def test_counters_bear_our_names_and_are_summed_over_engines() -> None:
    found = engines.get("vllm").counters(
        [
            sample("vllm:prefix_cache_queries_total", 10, engine="0"),
            sample("vllm:prefix_cache_queries_total", 20, engine="1"),
            sample("vllm:prefix_cache_hits_total", 5, engine="0"),
            sample("vllm:kv_cache_usage_perc", 0.2, engine="0"),
            sample("vllm:kv_cache_usage_perc", 0.4, engine="1"),
        ]
    )
    assert found["prefix_query_tokens"] == 30
    assert found["kv_used_ratio"] == pytest.approx(0.3)
    assert set(found) <= set(COUNTERS)


def test_hits_counted_in_blocks_are_left_unread() -> None:
    old = [sample("vllm:gpu_prefix_cache_queries_total", 10)]
    assert engines.get("vllm").counters(old) == {}


def test_a_counter_that_is_absent_before_the_first_hit_is_zero_where_it_is_known() -> None:
    asked = sample("sglang:prompt_tokens_total", 7)
    assert "prefix_hit_tokens" not in engines.get("sglang").counters([asked])
    newer = [asked, sample("sglang:max_total_num_tokens", 5)]
    assert engines.get("sglang").counters(newer)["prefix_hit_tokens"] == 0


def test_retractions_that_are_absent_before_the_first_are_zero_where_it_is_known() -> None:
    asked = sample("sglang:max_total_num_tokens", 5)
    assert "preemptions" not in engines.get("sglang").counters([asked])
    newer = [asked, sample("sglang:page_size", 1)]
    assert engines.get("sglang").counters(newer)["preemptions"] == 0
    counted = [*newer, sample("sglang:num_retracted_requests_total", 3)]
    assert engines.get("sglang").counters(counted)["preemptions"] == 3


def test_sources_of_cached_tokens_are_summed_and_priorities_are_not() -> None:
    found = engines.get("sglang").counters(
        [
            sample("sglang:cached_tokens_total", 3, cache_source="device"),
            sample("sglang:cached_tokens_total", 4, cache_source="host"),
            sample("sglang:num_running_reqs", 2, priority=""),
            sample("sglang:num_running_reqs", 2, priority="5"),
        ]
    )
    assert (found["prefix_hit_tokens"], found["running"]) == (7, 2)


@pytest.mark.parametrize(
    ("engine", "status", "body", "done"),
    [
        ("vllm", 200, '{"success": true}', True),
        ("vllm", 200, '{"success": false}', False),
        ("vllm", 200, "", None),
        ("vllm", 404, "", False),
        ("sglang", 200, "Cache flushed.", True),
        ("sglang", 400, "Flush cache failed.", False),
    ],
)
def test_a_flush_is_judged_by_its_answer(
    engine: str, status: int, body: str, done: bool | None
) -> None:
    flush = engines.get(engine).flush
    assert flush is not None
    assert flush.done(status, body) is done


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_completion_has_an_exact_length_and_spells_its_sampling(engine: str) -> None:
    body = engines.get(engine).completion("m", (1, 2, 3), 7, Sampling(seed=5, top_k=20))
    assert body["prompt"] == [1, 2, 3]
    assert (body["max_tokens"], body["ignore_eos"]) == (7, True)
    assert (body["temperature"], body["top_k"], body["seed"]) == (0.0, 20, 5)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_without_a_seed_none_is_sent(engine: str) -> None:
    assert "seed" not in engines.get(engine).completion("m", (1,), 1, Sampling())


@pytest.mark.parametrize(
    ("engine", "version", "status", "body", "emptied"),
    [
        ("sglang", (0, 4, 5), 200, "Cache flushed.", None),
        ("sglang", (0, 4, 6), 200, "Cache flushed.", True),
        ("sglang", (0, 4, 5), 400, "", False),
        ("sglang", None, 200, "Cache flushed.", True),
        ("vllm", (0, 32, 0), 200, '{"success": true}', True),
        ("vllm", (0, 32, 0), 200, '{"success": false}', False),
        ("vllm", (0, 25, 0), 200, "", None),
        ("vllm", (0, 32, 0), 404, "", False),  # without dev mode
    ],
)
def test_a_cache_is_called_emptied_only_where_the_answer_can_tell(
    engine: str, version: tuple[int, ...] | None, status: int, body: str, emptied: bool | None
) -> None:
    answers = httpx.MockTransport(lambda request: httpx.Response(status, text=body))
    caller = Caller(transport=answers)
    found = flush(engines.get(engine), "http://server", caller, version)
    assert found is emptied
