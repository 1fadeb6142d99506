"""Settings as flags, release by release, and the guards against flags that silently mean less."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

import engines
from engines import Arguments, Served, Version
from engines.settings import CATALOGUE
from engines.spelling import flags_of

VALUES: dict[str, object] = {
    "tokens": 2048,
    "count": 2,
    "switch": True,
    "word": "auto",
    "memory": {"fraction": 0.8},
}


def served(
    settings: Mapping[str, object] | None = None,
    *,
    flags: Mapping[str, object] | None = None,
    version: Version | None = None,
    gpus: int = 1,
    model: str = "org/name",
    revision: str | None = None,
) -> Served:
    return Served(
        model=model,
        name="served",
        host="0.0.0.0",
        port=8123,
        settings=settings or {},
        flags=flags or {},
        version=version,
        gpus=gpus,
        revision=revision,
    )


def sent(engine: str, settings: Mapping[str, object] | None = None, **rest: object) -> Arguments:
    return engines.get(engine).arguments(served(settings, **rest))  # type: ignore[arg-type]


def has(arguments: Arguments, *words: str) -> bool:
    """Tell whether words stand in the command line, one behind the other."""
    argv, count = arguments.argv, len(words)
    return any(argv[start : start + count] == words for start in range(len(argv) - count + 1))


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
@pytest.mark.parametrize("name", sorted(CATALOGUE))
def test_every_setting_is_spelled_or_refused_with_a_reason(engine: str, name: str) -> None:
    arguments = sent(engine, {name: VALUES[CATALOGUE[name].kind]})
    base = sent(engine)
    default = name in ("mixed_chunk", "prefix_cache", "graphs")
    assert arguments.refusals or default or arguments.argv != base.argv
    assert all(len(refusal) > 20 for refusal in arguments.refusals)


@given(
    engine=st.sampled_from(["vllm", "sglang"]),
    name=st.sampled_from(sorted(CATALOGUE)),
    value=st.one_of(
        st.booleans(), st.integers(), st.floats(), st.text(max_size=9), st.none(), st.just({})
    ),
    version=st.one_of(st.none(), st.tuples(st.integers(0, 1), st.integers(0, 40))),
    gpus=st.integers(0, 2),
)
def test_no_setting_of_any_kind_raises(
    engine: str, name: str, value: object, version: Version | None, gpus: int
) -> None:
    arguments = sent(engine, {name: value}, version=version, gpus=gpus)
    assert all(isinstance(word, str) for word in arguments.argv)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_the_place_and_the_name_are_always_sent(engine: str) -> None:
    arguments = sent(engine)
    assert has(arguments, "--host", "0.0.0.0", "--port", "8123")
    assert has(arguments, "--served-model-name", "served")


def test_the_model_is_never_positional_for_vllm() -> None:
    assert sent("vllm", version=(0, 11, 0)).argv[:2] == ("--model", "org/name")
    assert engines.get("vllm").image_program == ()


def test_sglang_is_given_its_program_and_its_model_path() -> None:
    engine = engines.get("sglang")
    assert engine.image_program == ("python3", "-m", "sglang.launch_server")
    assert sent("sglang").argv[:2] == ("--model-path", "org/name")


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_revision_pins_a_hub_model_and_no_folder(engine: str) -> None:
    assert has(sent(engine, revision="abc"), "--revision", "abc")
    assert "--revision" not in sent(engine, revision="abc", model="/models/x").argv


def test_cached_tokens_are_reported_by_both() -> None:
    assert "--enable-prompt-tokens-details" in sent("vllm").argv
    assert "--enable-cache-report" in sent("sglang").argv
    assert "--enable-metrics" in sent("sglang").argv


def test_no_sampling_default_of_the_model_is_taken() -> None:
    assert has(sent("vllm"), "--generation-config", "vllm")
    assert has(sent("sglang"), "--sampling-defaults", "openai")
    assert "--generation-config" not in sent("vllm", version=(0, 7, 3)).argv
    assert "--sampling-defaults" not in sent("sglang", version=(0, 5, 3)).argv


def test_request_logs_are_off_where_they_are_on_by_default() -> None:
    assert "--disable-log-requests" in sent("vllm", version=(0, 10, 0)).argv
    assert "--disable-log-requests" not in sent("vllm", version=(0, 10, 2)).argv
    assert "--disable-log-requests" not in sent("vllm").argv


def test_vllm_opens_its_pages_and_prints_no_colours() -> None:
    env = sent("vllm").env
    assert env["VLLM_SERVER_DEV_MODE"] == "1"
    assert (env["NO_COLOR"], env["VLLM_LOGGING_COLOR"]) == ("1", "0")


def test_fp8_alone_becomes_the_format_that_sglang_wants() -> None:
    assert has(sent("sglang", {"kv_dtype": "fp8"}), "--kv-cache-dtype", "fp8_e4m3")
    assert has(sent("vllm", {"kv_dtype": "fp8"}), "--kv-cache-dtype", "fp8")


def test_a_release_that_does_not_know_a_kv_dtype_is_refused() -> None:
    assert sent("sglang", {"kv_dtype": "fp8"}, version=(0, 3, 6)).refusals
    assert sent("sglang", {"kv_dtype": "bfloat16"}, version=(0, 5, 3)).refusals
    assert sent("vllm", {"kv_dtype": "bfloat16"}, version=(0, 10, 2)).refusals
    assert not sent("vllm", {"kv_dtype": "bfloat16"}, version=(0, 11, 0)).refusals


def test_weights_as_stored_send_nothing() -> None:
    for engine in ("vllm", "sglang"):
        assert sent(engine, {"weights": "as_stored"}).argv == sent(engine).argv


def test_a_fraction_says_what_it_is_a_fraction_of() -> None:
    for engine, flag in (("vllm", "--gpu-memory-utilization"), ("sglang", "--mem-fraction-static")):
        arguments = sent(engine, {"memory": {"fraction": 0.8}})
        assert has(arguments, flag, "0.8")
        assert any("weights" in note and "KV" in note for note in arguments.notes)


def test_kv_tokens_become_whole_blocks_of_a_size_that_is_sent_too() -> None:
    arguments = sent("vllm", {"memory": {"kv_tokens": 1000}})
    assert has(arguments, "--block-size", "16", "--num-gpu-blocks-override", "63")
    on_cpu = sent("vllm", {"memory": {"kv_tokens": 1000}}, gpus=0)
    assert has(on_cpu, "--block-size", "128", "--num-gpu-blocks-override", "8")
    assert on_cpu.env["VLLM_CPU_KVCACHE_SPACE"] == "1"


def test_an_asked_block_size_is_sent_once() -> None:
    arguments = sent("vllm", {"memory": {"kv_tokens": 1000}, "block_tokens": 32})
    assert arguments.argv.count("--block-size") == 1
    assert has(arguments, "--block-size", "32", "--num-gpu-blocks-override", "32")


def test_kv_bytes_are_refused_by_an_engine_or_release_without_them() -> None:
    size = {"memory": {"kv_bytes": 2**30}}
    assert has(sent("vllm", size), "--kv-cache-memory-bytes", str(2**30))
    assert sent("vllm", size, version=(0, 10, 0)).refusals
    assert sent("sglang", size).refusals


def test_on_a_cpu_variable_and_flag_say_the_same_bytes() -> None:
    arguments = sent("vllm", {"memory": {"kv_bytes": 2 * 2**30}}, gpus=0)
    assert has(arguments, "--kv-cache-memory-bytes", str(2 * 2**30))
    assert arguments.env["VLLM_CPU_KVCACHE_SPACE"] == "2"


def test_bytes_that_the_variable_cannot_say_come_with_a_warning() -> None:
    arguments = sent("vllm", {"memory": {"kv_bytes": 3 * 2**29}}, gpus=0)
    assert "VLLM_CPU_KVCACHE_SPACE" not in arguments.env
    assert any("silently overrides" in note for note in arguments.notes)


def test_sglang_on_a_cpu_is_told_so() -> None:
    arguments = sent("sglang", {"memory": {"kv_tokens": 4096}}, gpus=0)
    assert has(arguments, "--device", "cpu")
    assert has(arguments, "--max-total-tokens", "4096")
    assert arguments.env["SGLANG_USE_CPU_ENGINE"] == "1"


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_a_cpu_server_without_a_memory_limit_comes_with_a_note(engine: str) -> None:
    assert any("memory" in note for note in sent(engine, gpus=0).notes)


def test_a_chunk_under_the_requests_that_run_is_refused_for_vllm_only() -> None:
    settings = {"chunk_tokens": 32, "max_running": 64}
    assert sent("vllm", settings).refusals
    assert not sent("sglang", settings).refusals


def test_vllm_cannot_keep_chunks_and_decodes_apart() -> None:
    assert sent("vllm", {"mixed_chunk": False}).refusals
    assert not sent("vllm", {"mixed_chunk": False}, version=(0, 7, 3)).refusals
    assert "--enable-mixed-chunk" in sent("sglang", {"mixed_chunk": True}).argv


def test_chunks_are_switched_on_where_they_are_off_by_default() -> None:
    arguments = sent("vllm", {"chunk_tokens": 512}, version=(0, 7, 3))
    assert has(arguments, "--enable-chunked-prefill", "--max-num-batched-tokens", "512")


def test_the_attention_backend_moves_from_a_variable_to_a_flag() -> None:
    old = sent("vllm", {"attention_backend": "FLASHINFER"}, version=(0, 12, 0))
    new = sent("vllm", {"attention_backend": "FLASHINFER"}, version=(0, 13, 0))
    assert old.env["VLLM_ATTENTION_BACKEND"] == "FLASHINFER"
    assert has(new, "--attention-backend", "FLASHINFER")


def test_a_setting_older_than_its_flag_is_refused_with_the_release_that_has_it() -> None:
    (refusal,) = sent("sglang", {"block_tokens": 16}, version=(0, 4, 3)).refusals
    assert "0.4.4" in refusal


def test_a_raw_flag_is_sent_as_written() -> None:
    flags = {"max_loras": 4, "trust-remote-code": True, "cuda-graph-sizes": [1, 2]}
    arguments = sent("vllm", flags=flags)
    assert has(arguments, "--max-loras", "4", "--trust-remote-code", "--cuda-graph-sizes", "1", "2")


def test_a_raw_flag_that_a_setting_also_sends_is_refused() -> None:
    assert sent("vllm", {"max_running": 8}, flags={"max_num_seqs": 16}).refusals
    assert sent("sglang", {"tensor_parallel": 2}, flags={"tp": 4}).refusals
    assert sent("vllm", flags={"port": 9000}).refusals


def test_a_raw_flag_replaces_what_is_only_always_sent() -> None:
    arguments = sent("vllm", flags={"generation-config": "auto"})
    assert has(arguments, "--generation-config", "auto")
    assert flags_of(arguments.argv).count("--generation-config") == 1


def test_a_switch_that_is_off_is_negated_or_refused() -> None:
    assert "--no-async-scheduling" in sent("vllm", flags={"async-scheduling": False}).argv
    assert sent("sglang", flags={"enable-metrics": False}).refusals


@pytest.mark.parametrize(
    ("image", "version"),
    [
        ("vllm/vllm-openai:v0.31.0", (0, 31, 0)),
        ("lmsysorg/sglang:v0.5.21-cu126", (0, 5, 21)),
        ("lmsysorg/sglang:v0.4.6.post5-cu124", (0, 4, 6)),
        ("local/vllm-cpu:0.32.0@sha256:00", (0, 32, 0)),
        ("localhost:5000/vllm", None),
        ("vllm/vllm-openai:latest", None),
        ("vllm/vllm-openai:nightly-0.9", None),
        ("vllm/vllm-openai@sha256:00", None),
    ],
)
def test_an_image_tag_tells_its_release_or_nothing(image: str, version: Version | None) -> None:
    assert engines.get("vllm").version_of_image(image) == version
