"""Requested, resolved, observed; and flags that a program does not know."""

from __future__ import annotations

import engines
from engines import Served
from engines.help_flags import known_flags, unknown_flags
from engines.observing import resolved

HELP = """usage: vllm serve [model_tag] [options]

options:
  --max-num-seqs MAX_NUM_SEQS
                        Most requests.
  --tensor-parallel-size SIZE, -tp SIZE
  --enable-prefix-caching, --no-enable-prefix-caching
                        Reuse. See --made-up-in-prose for more.
  --kernel-config KERNEL_CONFIG
"""


def served(**settings: object) -> Served:
    return Served(model="m", name="n", host="h", port=1, settings=settings)


def test_each_setting_shows_the_words_sent_for_it_alone() -> None:
    asked = served(chunk_tokens=512, prefix_cache=False, graphs=True, max_running=8)
    words = {name: resolved(engines.get("vllm"), asked, name) for name in asked.settings}
    assert words == {
        "chunk_tokens": ("--max-num-batched-tokens", "512"),
        "prefix_cache": ("--no-enable-prefix-caching",),
        "graphs": (),
        "max_running": ("--max-num-seqs", "8"),
    }


def test_a_variable_shows_as_what_was_sent() -> None:
    asked = Served(
        model="m",
        name="n",
        host="h",
        port=1,
        settings={"attention_backend": "XFORMERS"},
        version=(0, 10, 0),
    )
    words = resolved(engines.get("vllm"), asked, "attention_backend")
    assert words == ("VLLM_ATTENTION_BACKEND=XFORMERS",)


def test_flags_are_those_that_a_help_text_lists() -> None:
    flags = known_flags(HELP)
    assert {"--max-num-seqs", "-tp", "--no-enable-prefix-caching"} <= flags
    assert "--made-up-in-prose" not in flags


def test_a_flag_that_the_help_does_not_list_is_reported_once() -> None:
    argv = ("--max-num-seqs", "8", "--new-flag=1", "--new-flag", "x", "--tensor_parallel_size", "2")
    assert unknown_flags(argv, HELP) == ("--new-flag",)


def test_a_dotted_flag_is_known_by_its_first_part() -> None:
    assert unknown_flags(("--kernel-config.x", "1"), HELP) == ()


def test_a_help_without_flags_tells_nothing() -> None:
    assert unknown_flags(("--anything",), "Killed") == ()
