"""The catalogue of causes: why a boot or a load failed, whose fault it was, what to change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from engines import Fact

Origin = Literal["engine", "client", "host"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One class of failure.

    Attributes:
        name: the word stored in rows.
        origin: where it lies: the engine or how it was configured, our client, or the host.
        hint: what to change, in one or two sentences.
    """

    name: str
    origin: Origin
    hint: str


def _catalogue(*rows: tuple[str, Origin, str]) -> dict[str, Cause]:
    return {name: Cause(name=name, origin=origin, hint=hint) for name, origin, hint in rows}


CATALOGUE: Final = _catalogue(
    ("unknown", "engine", "Read the stored log; no known pattern explains this end."),
    ("exited", "engine", "The server ended by itself; read the stored log's last lines."),
    ("removed", "host", "Someone removed the container; see who else cleans up on this machine."),
    ("daemon_lost", "host", "Docker's daemon went away; see its own log, then run exec again."),
    ("killed", "host", "Something outside killed the server (exit code 137); look for who did."),
    (
        "oom_killed",
        "host",
        (
            "The kernel killed it for host memory: raise the container's memory limit, or give the "
            "server less host memory (SGLang's --hicache-size, vLLM's VLLM_CPU_KVCACHE_SPACE)."
        ),
    ),
    (
        "never_ready",
        "engine",
        "Raise [timeouts] ready_s, or read the stored log for what it waits.",
    ),
    ("wrong_model", "host", "Another server answers on this port; stop it or change the port."),
    ("no_token", "engine", "The server answered but generated nothing; read the stored log."),
    ("interrupted", "host", "Run the same exec again: it goes on with a new attempt."),
    ("image_missing", "host", "Pull or build the image, or correct its name."),
    ("docker_failed", "host", "Read Docker's own message; `docker info` tells whether it answers."),
    (
        "stuck",
        "host",
        "A step took longer than [timeouts] allows: raise its limit, or see what holds it up.",
    ),
    ("launch_failed", "host", "The program could not be started; check its path."),
    ("load_failed", "engine", "Requests failed beyond the limit; see the outcomes of `requests`."),
    (
        "load_timeout",
        "engine",
        (
            "The load was cut at [timeouts] load_s: raise it, or ask for fewer requests; where "
            "even one of them is slow, read the stored log's last lines."
        ),
    ),
    (
        "hang",
        "engine",
        (
            "The server lived and said nothing: read the stored log's last lines. Where one step "
            "may take so long (a very long prompt), raise [timeouts] silence_s."
        ),
    ),
    # memory of the device
    (
        "kv_no_memory",
        "engine",
        (
            "The weights leave nothing for the KV cache: RAISE memory.fraction, or take a smaller "
            "model, quantized weights or more tensor parallelism."
        ),
    ),
    (
        "kv_too_small_for_max_model_len",
        "engine",
        (
            "One request of full length does not fit the KV cache: lower context_tokens, or raise "
            "memory.fraction."
        ),
    ),
    (
        "mamba_cache_too_small",
        "engine",
        (
            "More requests may run than the state cache of this hybrid model holds: lower "
            "max_running, or raise memory.fraction."
        ),
    ),
    (
        "gpu_memory_busy",
        "host",
        (
            "Another process holds memory that this server asks for: stop it (nvidia-smi shows "
            "it), or lower memory.fraction."
        ),
    ),
    (
        "oom_load",
        "engine",
        (
            "The device's memory ended while the model was loaded or profiled: use a smaller "
            "model, quantized weights or more tensor parallelism, or lower chunk_tokens."
        ),
    ),
    (
        "oom_warmup",
        "engine",
        "The device's memory ended in the warm-up: lower max_running or memory.fraction.",
    ),
    (
        "oom_graph_capture",
        "engine",
        (
            "CUDA graphs need memory beside the KV cache: LOWER memory.fraction (the opposite of "
            "what helps a KV cache that is too small), lower max_running, or set graphs = false."
        ),
    ),
    (
        "oom_serving",
        "engine",
        (
            "The device's memory ended while serving: lower memory.fraction, chunk_tokens or "
            "max_running."
        ),
    ),
    (
        "graph_capture_failed",
        "engine",
        (
            "Capturing CUDA graphs failed for another reason than memory: set graphs = false to "
            "see whether the rest works, and read the evidence."
        ),
    ),
    # memory of the host
    (
        "hicache_host_memory",
        "host",
        (
            "SGLang keeps 10 GiB of host memory free beside its hierarchical cache: lower "
            "--hicache-size or --hicache-ratio, or free host memory. The size is per rank."
        ),
    ),
    (
        "host_memory",
        "host",
        "The host's memory ended: free some, raise the container's limit, or use a smaller model.",
    ),
    (
        "no_compiler",
        "engine",
        (
            "The image has no C compiler, which Triton needs to build its launchers: install gcc "
            "in it or set CC, or start without compilation (graphs = false)."
        ),
    ),
    ("shm_too_small", "host", "Give the container a larger --shm-size, or --ipc=host."),
    ("disk_full", "host", "Free disk space where caches, models and logs lie."),
    # what was asked
    (
        "bad_flag",
        "engine",
        (
            "This release does not know the flag or its value: compare with the image's --help, "
            "and look for a setting that spells it by release."
        ),
    ),
    ("bad_config", "engine", "Two settings contradict each other; the evidence names them."),
    (
        "context_len_too_long",
        "engine",
        "The model was not made for so long a context: lower context_tokens.",
    ),
    (
        "dtype_unsupported",
        "host",
        'This device does not compute in that dtype: set dtype = "float16", or kv_dtype otherwise.',
    ),
    (
        "quantization_unsupported",
        "engine",
        "This device, release or checkpoint does not support that quantization: change weights.",
    ),
    ("backend_unsupported", "engine", "Choose another attention_backend, or leave it out."),
    ("model_unsupported", "engine", "This release does not know the model; take a newer image."),
    # model, network, driver
    (
        "gated_model",
        "host",
        "The model is gated: accept its terms, and hand over a token that may read it (HF_TOKEN).",
    ),
    (
        "model_not_found",
        "host",
        "The model was not found: check its name and revision, or fetch it first if offline.",
    ),
    (
        "port_in_use",
        "host",
        "Another process listens on the port: stop it, or change the port.",
    ),
    (
        "driver_mismatch",
        "host",
        (
            "The image needs a newer NVIDIA driver or another GPU: update the driver, or take an "
            "image built for this CUDA release."
        ),
    ),
    (
        "nccl_failed",
        "host",
        "The GPUs could not talk to each other: set NCCL_DEBUG=INFO, or give a larger --shm-size.",
    ),
)

HICACHE_RESERVE_BYTES: Final = 10 * 2**30
"""Host memory that SGLang leaves free beside its hierarchical cache, in every release."""


def explained(cause: str, facts: Iterable[Fact]) -> str:
    """Return what to change, with the arithmetic where the log gives its numbers.

    Args:
        cause: a name of the catalogue.
        facts: what the log states.
    """
    hint = CATALOGUE[cause].hint
    stated = {fact.name: fact.value for fact in facts}
    asked, free = stated.get("hicache_requested_bytes"), stated.get("host_free_bytes")
    if cause == "hicache_host_memory" and isinstance(asked, int) and isinstance(free, int):
        return f"{_reserve(asked, free)} {hint}"
    return hint


def _reserve(asked_bytes: int, free_bytes: int) -> str:
    """Return the sum behind SGLang's refusal, in its own GB (10^9 bytes).

    Up to 0.4.9 the message states the free memory before the reserve is taken off, so that less
    may be asked than is said to be free; later releases state what is left of it.
    """
    asked, free = asked_bytes / 10**9, free_bytes / 10**9
    reserve = HICACHE_RESERVE_BYTES / 10**9
    if asked > free:
        return (
            f"Asked {asked:.2f} GB, and {free:.2f} GB are left after the reserve of 10 GiB: "
            f"{asked - free:.2f} GB too much."
        )
    left = free - reserve
    return (
        f"Asked {asked:.2f} GB of {free:.2f} GB free, of which 10 GiB ({reserve:.2f} GB) are a "
        f"reserve that the message does not name: {left:.2f} GB are left, "
        f"{asked - left:.2f} GB too few."
    )
