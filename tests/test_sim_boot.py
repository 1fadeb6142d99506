"""What one boot of a simulated engine makes of its flags, its GPU and its seed."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from engines.sim import options, profile
from engines.sim.dialects import boot
from engines.sim.options import Simulate
from engines.sim.pace import factor_of, pace_of
from engines.sim.setup import RefusalError
from engines.sim.twin import Twin

FLAGS = {
    "vllm": "--model Qwen/Qwen3-1.7B --max-model-len 4096 --gpu-memory-utilization 0.85",
    "sglang": "--model-path Qwen/Qwen3-1.7B --context-length 4096 --mem-fraction-static 0.8",
}
both = pytest.mark.parametrize("engine", ["vllm", "sglang"])


def twin(engine: str, flags: str = "", **simulate: Any) -> Twin:
    given: dict[str, Any] = {"gpu": "laptop-8gb", "boot": 1} | simulate
    return boot(engine, [*FLAGS[engine].split(), *flags.split()], Simulate(**given))[1]


def test_vllm_leaves_less_for_kv_at_its_first_boot_and_varies_later() -> None:
    first = twin("vllm", boot=0).kv_tokens
    later = [twin("vllm", boot=number).kv_tokens for number in range(1, 30)]
    assert first < min(later)
    assert 1 < len(set(later)) < len(later)
    assert statistics.mode(later) == 26_560


def test_sglang_has_the_same_capacity_at_every_boot() -> None:
    assert len({twin("sglang", boot=number).kv_tokens for number in range(10)}) == 1


@both
def test_a_numbered_boot_draws_the_same_twice_and_another_night_differs(engine: str) -> None:
    spread: dict[str, Any] = {"boot_sd_ratio": 0.1, "night_sd_ratio": 0.1}
    one, again = (factor_of(Simulate(boot=3, **spread)) for _ in range(2))
    assert one == again
    assert one != factor_of(Simulate(boot=3, night=1, **spread))
    assert twin(engine, boot=3).kv_tokens == twin(engine, boot=3).kv_tokens


def test_two_valued_boots_have_two_values() -> None:
    factors = {factor_of(Simulate(boot=n, two_valued_ratio=1.2)) for n in range(20)}
    assert factors == {1.0, 1.2}


def test_drift_grows_with_the_hours() -> None:
    pace = pace_of(Simulate(boot=1, drift_ratio_per_hour=0.1, slowdown_ratio=2.0))
    assert pace(0.0) == pytest.approx(2.0)
    assert pace(7200.0) == pytest.approx(2.4)


@both
def test_capacity_can_be_told_for_each_boot(engine: str) -> None:
    told = [twin(engine, kv_tokens=(8000, 16_000), boot=n).kv_tokens for n in range(3)]
    assert told == [8000, 16_000, 16_000]


def test_capacity_follows_vllms_own_ways_to_say_it() -> None:
    assert twin("vllm", "--num-gpu-blocks-override 1250").kv_tokens == 20_000
    given = twin("vllm", "--kv-cache-memory-bytes 1146880000")
    assert given.kv_tokens == 10_000
    assert twin("vllm", "--kv-cache-dtype fp8 --kv-cache-memory-bytes 1146880000").kv_tokens == (
        20_000
    )


def test_sglang_caps_what_is_asked_at_what_is_there() -> None:
    assert twin("sglang", "--max-total-tokens 5000").kv_tokens == 5000
    assert twin("sglang", "--max-total-tokens 900000").kv_tokens == twin("sglang").kv_tokens


@both
def test_fp8_weights_leave_more_for_kv_and_decode_faster(engine: str) -> None:
    stored, fp8 = twin(engine), twin(engine, "--quantization fp8")
    assert fp8.kv_tokens > stored.kv_tokens + 8000
    assert fp8.engine.cost.fixed_s < 0.7 * stored.engine.cost.fixed_s


@pytest.mark.parametrize(
    ("engine", "gpu", "chunk"),
    [
        ("vllm", "laptop-8gb", 2048),
        ("sglang", "laptop-8gb", 2048),
        ("vllm", "h100-80gb", 8192),
        ("sglang", "h100-80gb", 8192),
        ("sglang", "rtx-4090", 4096),
    ],
)
def test_the_chunk_follows_the_gpus_memory(engine: str, gpu: str, chunk: int) -> None:
    assert twin(engine, gpu=gpu).setup.chunk_tokens == chunk


def test_vllm_reads_lengths_and_names_as_it_does() -> None:
    setup = twin("vllm", "--max-num-batched-tokens 4k --max_num_seqs=8").setup
    assert setup.chunk_tokens == 4000
    assert setup.max_running == 8
    assert twin("vllm", "--logging-config.formatter json").setup.model == "Qwen/Qwen3-1.7B"


@both
def test_an_unknown_model_is_refused_in_the_hubs_words(engine: str) -> None:
    flag = {"vllm": "--model", "sglang": "--model-path"}[engine]
    with pytest.raises(RefusalError, match="is not a valid model identifier"):
        boot(engine, [flag, "nobody/nothing"], Simulate())


def test_a_context_longer_than_the_models_is_refused() -> None:
    with pytest.raises(RefusalError, match="greater than the derived"):
        twin("vllm", "--max-model-len 1000000")
    with pytest.raises(RefusalError, match="greater than the derived"):
        twin("sglang", "--context-length 1000000")


def test_every_gpu_profile_loads_and_says_whether_it_was_calibrated() -> None:
    found = {name: profile.load(name).calibrated for name in profile.names()}
    assert found == {
        "a100-80gb": False,
        "cpu": False,
        "h100-80gb": False,
        "laptop-8gb": True,
        "rtx-4090": False,
    }


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "takes a JSON object"),
        ("[]", "takes a JSON object"),
        ('{"bot": 1}', "did you mean 'boot'"),
        ('{"boot": "1"}', "takes int | None"),
        ('{"crash_at": "nowhere"}', "takes one of start, weights"),
        ('{"speed": 0}', "must be above 0"),
        ('{"kv_tokens": [1.5]}', "takes tuple"),
    ],
)
def test_a_wrong_option_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ValueError, match="simulate") as refused:
        options.read(text)
    assert words in str(refused.value)
