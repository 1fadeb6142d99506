"""What a naive pattern gets wrong: ranks, pools, reprints, order, cuts, look-alikes."""

from __future__ import annotations

from typing import Any

from engines.corpus_names import corpus_facts
from engines.reading import Reader, Reading

AT = "[2026-01-01 00:00:00 TP0]"
POOL = f"{AT} KV Cache is allocated. #tokens: {{}}, K size: {{}} GB, V size: {{}} GB"
LOAD = "Load weight end. elapsed={} s, avail mem=9.00 GB, mem usage={} GB."
READY = "[2026-01-01 00:00:10] The server is fired up and ready to roll!"


def read(*lines: str, engine: str | None = None, end: str = "\n") -> Reading:
    reader = Reader(engine)
    reader.feed(("\n".join(lines) + end).encode())
    return reader.close()


def facts(*lines: str, engine: str = "sglang", end: str = "\n") -> dict[str, Any]:
    return dict(corpus_facts(engine, read(*lines, engine=engine, end=end).facts))


def core(dp: int, tokens: str) -> str:
    prefix = f"(EngineCore_DP{dp} pid=1{dp}) INFO 01-01 00:00:00 [k.py:1]"
    return f"{prefix} GPU KV cache size: {tokens} tokens"


def summary(tokens: int, rank: str = "") -> str:
    return f"[2026-01-01 00:00:00{rank}] max_total_num_tokens={tokens}, context_len=4096"


def test_equal_engines_are_summed_and_a_reprint_is_not() -> None:
    found = facts(core(0, "1,000"), core(1, "1,000"), core(0, "1,000"), engine="vllm")
    assert found["kv_tokens"] == 2000
    assert found["kv_tokens_per_engine"] == [1000, 1000]


def test_tensor_parallel_ranks_are_not_summed() -> None:
    assert facts(summary(500, " TP0"), summary(500, " TP1"))["kv_tokens"] == 500


def test_pipeline_stages_hold_what_the_smallest_holds() -> None:
    assert facts(summary(500, " PP0"), summary(400, " PP1"))["kv_tokens"] == 400


def test_data_parallel_ranks_of_sglang_are_summed_over_their_smallest_parts() -> None:
    lines = [summary(500, " DP0 TP0"), summary(480, " DP1 TP2"), summary(490, " DP1 TP3")]
    assert facts(*lines)["kv_tokens"] == 980


def test_the_capped_capacity_counts_and_not_what_memory_would_allow() -> None:
    line = "[2026-01-01 00:00:00] KV pool sizing: page_size=64 -> max_total_num_tokens=338176"
    assert facts(line, summary(262144))["kv_tokens"] == 262144


def test_the_draft_pool_printed_last_is_not_the_models() -> None:
    found = facts(POOL.format(300, "3.00", "3.00"), POOL.format(300, "0.10", "0.10"))
    assert (found["kv_tokens"], found["k_gb"]) == (300, 3.0)
    assert (found["draft_kv_tokens"], found["draft_k_gb"]) == (300, 0.1)


def test_a_pool_printed_twice_is_no_draft_pool() -> None:
    pool = "KV Cache is allocated. #tokens: 300, K size: 3.00 GB, V size: 3.00 GB"
    assert "draft_kv_tokens" not in facts(pool, pool)


def test_the_draft_models_weights_are_kept_apart() -> None:
    found = facts(f"{AT} {LOAD}".format("60", "20.00"), f"{AT} {LOAD}".format("3", "1.00"))
    assert (found["weights_gb"], found["load_s"], found["draft_weights_gb"]) == (20.0, 60.0, 1.0)


def test_an_upper_bound_of_addresses_is_no_memory() -> None:
    line = "KV Cache VA upper bound. dtype: x, #tokens: 9999, K size: 99.00 GB, V size: 9.00 GB"
    assert facts(line) == {}


def test_mem_usage_and_avail_mem_are_told_apart_in_either_order() -> None:
    old = "Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB."
    new = "Capture cuda graph end. Time elapsed: 7.23 s. mem usage=0.93 GB. avail mem=0.53 GB."
    assert facts(old) == facts(new)
    assert facts(old)["cuda_graph_gb"] == 0.93


def test_uvicorn_alone_does_not_make_sglang_ready() -> None:
    found = read(summary(5), "INFO:     Application startup complete.")
    assert found.outcome == "partial"
    assert read(summary(5), READY).outcome == "ready"


def test_readiness_is_known_while_the_log_still_grows() -> None:
    reader = Reader("vllm")
    reader.feed(b"INFO:     Waiting for application startup.\nINFO:     Application start")
    assert not reader.ready
    reader.feed(b"up complete.\n")
    assert reader.ready


def test_an_auto_fitted_context_replaces_the_one_printed_before() -> None:
    found = facts(
        "INFO 01-01 00:00:00 [m.py:1] Using max model len 8192",
        "INFO 01-01 00:00:01 [k.py:1] Auto-fit max_model_len: reduced from 8192 to 1920 to fit",
        engine="vllm",
    )
    assert found["context_len"] == 1920


def test_usage_and_advice_about_the_kv_cache_are_no_capacity() -> None:
    found = facts(
        "INFO 01-01 00:00:00 [l.py:1] GPU KV cache usage: 1.3%, Prefix cache hit rate: 0.0%",
        "INFO 01-01 00:00:00 [w.py:1] To keep the KV cache size as before, increase it to 0.9271.",
        engine="vllm",
    )
    assert "kv_tokens" not in found


def test_zero_blocks_are_a_value() -> None:
    line = "INFO 01-01 00:00:00 x.py:1] # GPU blocks: 0, # CPU blocks: 256"
    assert facts(line, engine="vllm")["num_gpu_blocks"] == 0


def test_tokens_are_not_made_of_blocks() -> None:
    line = "INFO 01-01 00:00:00 x.py:1] # GPU blocks: 1381"
    assert "kv_tokens" not in facts(line, engine="vllm")


def test_the_newest_line_first_is_read_in_time_order() -> None:
    lines = ["[2026-01-01 00:00:09 TP0] " + LOAD, "[2026-01-01 00:00:01 TP0] " + LOAD]
    found = facts(READY, lines[0].format(3, "1.00"), lines[1].format(60, "20.00"))
    assert (found["weights_gb"], found["draft_weights_gb"]) == (20.0, 1.0)


def test_a_number_cut_by_the_end_of_the_log_is_not_read() -> None:
    assert facts("max_total_num_tokens=2048", end="") == {}
    assert facts("max_total_num_tokens=20480, chunked", end="")["kv_tokens"] == 20480


def test_a_number_cut_by_another_process_is_not_read() -> None:
    assert facts("max_total_num_tokens=20[2026-01-01 00:00:00 TP1] Loading") == {}


def test_a_number_broken_by_a_terminal_is_not_read_in_half() -> None:
    assert "kv_tokens" not in facts("max_total_num_tokens=204", "80, chunked_prefill_size=8192")


def test_a_progress_bar_behind_a_number_does_not_hide_it() -> None:
    assert facts("max_total_num_tokens=20480", "  0%|    | 0/5 [00:00<?]")["kv_tokens"] == 20480


def test_a_configuration_broken_in_its_words_is_put_together() -> None:
    found = facts(
        "INFO 01-01 00:00:00 [c.py:1] Initializing a V1 LLM engine (v0.9.2) with config: x=1, dtyp",
        "e=torch.bfloat16, max_seq_len=131",
        "072, enable_prefix_caching=",
        "False, chunked_prefill_enabled=True, x",
        engine="vllm",
    )
    assert (found["dtype"], found["context_len"], found["prefix_cache"]) == (
        "torch.bfloat16",
        131072,
        False,
    )


def test_a_worker_that_changes_its_name_stays_one_rank() -> None:
    lines = [
        f"(Worker{tag} pid=7) INFO 01-01 00:00:00 [w.py:1] Available KV cache memory: {size} GiB"
        for tag, size in (("", "1.0"), ("_TP0", "1.0"), ("_TP1", "1.0"))
    ]
    found = facts(*lines, engine="vllm")
    assert found["available_kv_gb"] == 1.0


def test_the_largest_prefill_is_observed_from_load() -> None:
    batch = (
        "[2026-01-01 00:00:00 TP0] Prefill batch. #new-seq: 1, #new-token: {}, #cached-token: 0, "
    )
    reading = read(summary(5), batch.format(512), batch.format(2048), batch.format(7))
    (fact,) = [fact for fact in reading.facts if fact.name == "largest_prefill_tokens"]
    assert (fact.value, fact.source, fact.line) == (2048, "load", 3)


def test_a_fact_bears_its_rank_and_line() -> None:
    reading = read(summary(500, " DP0"), summary(480, " DP1"))
    ranks = {fact.rank: fact.line for fact in reading.facts if fact.name == "engine_kv_tokens"}
    assert ranks == {"DP0": 1, "DP1": 2}


def test_a_simulated_engine_says_so() -> None:
    reading = read("SIMULATED ENGINE: this is not vllm but a model of it", engine="vllm")
    assert [fact.value for fact in reading.facts if fact.name == "simulated"] == [True]


def test_memory_that_an_override_leaves_unused_is_not_the_caches() -> None:
    reading = read(
        "INFO 01-01 00:00:00 [w.py:1] Explicitly set (1.0/7.3) GiB for KV cache on node 0.",
        "INFO 01-01 00:00:00 [k.py:1] Overriding num_gpu_blocks=16384 with "
        "num_gpu_blocks_override=160",
        engine="vllm",
    )
    sizes = {fact.name: fact.value for fact in reading.facts}
    assert sizes["kv_bytes"] == 160 * 65536
    assert sizes["kv_available_bytes"] == 2**30


def test_a_unified_tree_cache_says_nothing_of_whether_it_is_used() -> None:
    made = b"[2026-12-01 09:41:21] Tree cache initialized: source=default impl=%s hybrid=False\n"
    for implementation, stated in ((b"UnifiedRadixCache", []), (b"RadixCache", [True])):
        reader = Reader("sglang")
        reader.feed(made % implementation)
        found = [f.value for f in reader.close().facts if f.name == "prefix_cache"]
        assert found == stated


def test_fp8_kv_on_a_cpu_without_its_instructions_is_a_dtype_the_engine_cannot_use() -> None:
    said = {
        "vllm": b"(EngineCore pid=26) ERROR 12-01 10:21:35 [core.py:1510]"
        b" NotImplementedError: FP8 KV cache on CPU requires x86 with AVX-512 or AMX.\n",
        "sglang": b"ValueError: CPU FP8 KV cache requires Intel AMX support.\n",
    }
    for engine, line in said.items():
        reader = Reader(engine)
        reader.feed(line)
        assert reader.close().cause == "dtype_unsupported"


def test_a_size_of_some_tokens_that_is_rounded_to_nothing_is_not_stated() -> None:
    found = facts(POOL.format(20480, "0.00", "0.00"))
    assert found["kv_tokens"] == 20480
    assert "k_gb" not in found


def test_weights_without_quantization_are_as_stored_and_no_quantization() -> None:
    config = (
        "INFO 01-01 00:00:00 [c.py:1] Initializing a V1 LLM engine (v0.32.0) with config: "
        "dtype=torch.bfloat16, quantization={}, enable_chunked_prefill=True, x"
    )
    for word, weights in (("None", "as_stored"), ("fp8", "fp8")):
        reading = read(config.format(word), engine="vllm")
        assert [fact.value for fact in reading.facts if fact.name == "weights"] == [weights]
    assert "quantization" not in facts(config.format("None"), engine="vllm")


def test_what_sglang_made_of_the_weights_counts_before_what_it_was_asked() -> None:
    reading = read(
        "[2026-01-01 00:00:00] server_args=ServerArgs(model_path='m', quantization=None)",
        "[2026-01-01 00:00:01] Load weight end. elapsed=1.00 s, type=X, quant=fp8, fmt=e4m3, "
        "avail mem=9.00 GB, mem usage=1.00 GB.",
        engine="sglang",
    )
    assert [fact.value for fact in reading.facts if fact.name == "weights"] == ["fp8", "as_stored"]
