"""What each workload is asked for, from timelines made by hand."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.figures.accuracy import agreement
from runner.figures.capacity import instances
from runner.figures.goodput import Limits, goodput_ratio
from runner.figures.hits import hits
from runner.figures.interference import interference
from runner.figures.latency import e2e_s, tpot_s, ttft_s
from runner.figures.shared_prefix import first_and_later
from runner.figures.structured import cost_at_equal_lengths, grammar, validity
from runner.load import Timeline

SECOND = 1_000_000_000


def served(sent_s: float, chunks_s: list[float], request: int = 0, **fields: Any) -> Timeline:
    """Return a request sent at `sent_s` whose chunks of one token came at `chunks_s`."""
    chunk_ns = tuple(round(at_s * SECOND) for at_s in chunks_s)
    known: dict[str, Any] = {
        "request": request,
        "sent_ns": round(sent_s * SECOND),
        "first_ns": chunk_ns[0] if chunk_ns else None,
        "last_ns": chunk_ns[-1] if chunk_ns else None,
        "ended_ns": chunk_ns[-1] if chunk_ns else round(sent_s * SECOND),
        "chunk_ns": chunk_ns,
        "chunk_tokens": (1,) * len(chunk_ns),
        "output_tokens": len(chunk_ns),
    }
    return Timeline(**(known | fields))


def stream(begin_s: float, step_s: float, count: int) -> list[float]:
    return [begin_s + step_s * number for number in range(count)]


def test_latencies_count_from_the_due_time_in_open_loop_and_from_the_send_in_closed() -> None:
    closed = served(2.0, [2.5, 3.0, 3.5])
    late = served(2.0, [2.5, 3.0, 3.5], intended_ns=1 * SECOND)
    assert (ttft_s(closed), ttft_s(late)) == (0.5, 1.5)
    assert (e2e_s(closed), e2e_s(late)) == (1.5, 2.5)


def test_time_per_token_leaves_out_the_first_chunk_with_all_its_tokens() -> None:
    bundled = served(0.0, [1.0, 2.0, 3.0], chunk_tokens=(4, 1, 3))
    assert tpot_s(bundled) == 0.5
    assert tpot_s(served(0.0, [1.0])) is None
    assert ttft_s(served(0.0, [])) is None


def test_a_victims_stall_is_what_gaps_inside_exceed_its_typical_gap_by() -> None:
    chunks = [*stream(0.1, 0.1, 21), 2.6, 3.1, *stream(3.2, 0.1, 20)]
    victim = served(0.0, chunks, role="victim")
    injected = served(2.15, [3.05, 3.08], request=1, role="injected", intended_ns=2 * SECOND)
    found = interference([injected, victim])
    (one,) = found.victims
    assert one.largest_inside_s == pytest.approx(0.5)
    assert one.largest_outside_s == pytest.approx(0.1)
    assert one.typical_s == pytest.approx(0.1)
    assert one.stall_s == pytest.approx(0.8)
    assert found.largest_inside_s == one.largest_inside_s
    assert found.injected_ttft_s == pytest.approx((1.05,))
    assert (found.injected, found.overlapped, found.void) == (1, 1, None)


def test_a_load_without_injection_has_no_gap_inside_and_is_not_void() -> None:
    found = interference([served(0.0, stream(0.1, 0.1, 50), role="victim")])
    assert found.victims[0].largest_inside_s is None
    assert found.victims[0].stall_s == 0
    assert (found.largest_inside_s, found.void) == (None, None)


def test_injected_prompts_that_wait_until_the_victims_end_make_the_load_void() -> None:
    victim = served(0.0, stream(0.1, 0.1, 20), role="victim")
    waiting = served(1.0, [3.0, 3.1], request=1, role="injected")
    found = interference([victim, waiting])
    assert (found.injected, found.overlapped) == (1, 0)
    assert found.void is not None
    assert "max_running" in found.void


def test_failed_and_warm_up_requests_are_no_victims() -> None:
    chunks = stream(0.1, 0.1, 20)
    failed = served(0.0, chunks, role="victim", outcome="reset")
    before = served(0.0, chunks, role="victim", warmup=True)
    found = interference([failed, before])
    assert found.victims == ()
    assert found.void == "no victim was served"


@given(gaps=st.lists(st.integers(1, 500), min_size=1, max_size=60), at=st.integers(0, 3000))
def test_every_gap_is_inside_or_outside_and_no_stall_is_negative(gaps: list[int], at: int) -> None:
    chunks, now = [0.0], 0
    for gap in gaps:
        now += gap
        chunks.append(now / 1000)
    injected = served(at / 1000, [at / 1000 + 0.2], request=1, role="injected")
    (victim,) = interference([served(0.0, chunks, role="victim"), injected]).victims
    sides = [victim.largest_inside_s, victim.largest_outside_s]
    assert max(side for side in sides if side is not None) == pytest.approx(max(gaps) / 1000)
    assert victim.stall_s is None or victim.stall_s >= 0


def test_later_requests_count_only_once_their_prefix_was_there() -> None:
    found = first_and_later(
        [
            served(0.0, [1.0], request=0, group="a", role="first"),
            served(0.5, [1.1], request=1, group="a", role="later"),
            served(2.0, [2.1], request=2, group="a", role="later"),
            served(3.0, [4.0], request=3, group="b", role="first", outcome="timeout"),
            served(5.0, [5.1], request=4, group="b", role="later"),
            served(6.0, [6.9], request=5, role="alone"),
        ]
    )
    assert found.first_s == (1.0,)
    assert found.later_s == pytest.approx((0.1,))
    assert found.together_s == pytest.approx((0.6, 0.1))
    assert found.alone_s == pytest.approx((0.9,))
    assert found.saved_ratio == pytest.approx(0.1)


def test_nothing_is_saved_where_one_side_is_missing() -> None:
    assert first_and_later([served(0.0, [1.0], group="a", role="first")]).saved_ratio is None


def test_hits_within_a_block_are_as_constructed_and_others_are_missed_or_surplus() -> None:
    cached = {0: 0, 1: 992, 2: 1000, 3: 500, 4: 1100, 5: None, 6: 7}
    timelines = [
        served(0.0, [1.0], request=number, input_tokens=1200, cached_tokens=tokens)
        for number, tokens in cached.items()
    ]
    expected = {0: 0, 1: 1000, 2: 1000, 3: 1000, 4: 1000, 5: 1000, 6: None}
    found = hits(timelines, expected, block_tokens=16)
    assert found.requests == 5
    assert (found.within, found.missed, found.surplus) == (3, 1, 1)
    assert (found.expected_tokens, found.measured_tokens) == (4000, 3592)
    assert found.surplus_ratio == pytest.approx(-408 / 6000)


def test_no_request_has_no_surplus() -> None:
    assert hits([], {}, block_tokens=16).surplus_ratio == 0


SCHEMA = {
    "type": "object",
    "properties": {"x": {"type": "integer"}},
    "required": ["x"],
    "additionalProperties": False,
}


def test_valid_rates_are_of_answers_that_ended_by_themselves() -> None:
    short = stream(0.1, 0.1, 5)
    texts = ['{"x": 1}', '{"x": "one"}', '{"x":', '[{"x": 1}]', "[" * 100_000]
    answers = [(served(0.0, short, group="s"), text) for text in texts]
    answers.append((served(0.0, stream(0.1, 0.1, 8), group="s"), '{"x": 1}'))
    answers.append((served(0.0, short, group="s", outcome="reset"), '{"x": 1}'))
    found = validity(answers, {"s": SCHEMA}, longest_tokens=8)
    assert (found.answers, found.finished, found.json, found.valid) == (6, 5, 3, 1)
    assert (found.json_ratio, found.valid_ratio) == (0.6, 0.2)
    assert found.mean_output_tokens == pytest.approx(33 / 6)


def test_no_finished_answer_has_no_rate() -> None:
    found = validity([], {}, longest_tokens=8)
    assert (found.valid_ratio, found.json_ratio, found.mean_output_tokens) == (None, None, None)


def test_a_null_is_json() -> None:
    one = [(served(0.0, [0.1], group="s"), "null")]
    found = validity(one, {"s": {"type": "null"}}, longest_tokens=8)
    assert (found.json, found.valid) == (1, 1)


def test_requests_sent_while_their_grammar_was_compiled_count_as_cold() -> None:
    found = grammar(
        [
            served(0.0, [2.0], request=0, group="s", role="cold"),
            served(1.0, [2.1], request=1, group="s", role="warm"),
            served(3.0, [3.2], request=2, group="s", role="warm"),
            served(3.0, [3.5], request=3, group="never_cold", role="warm"),
        ]
    )
    assert found.cold_s == pytest.approx((2.0, 1.1))
    assert found.warm_s == pytest.approx((0.2, 0.5))


def test_cost_compares_answers_of_equal_length_only() -> None:
    free = [served(0.0, stream(0.1, 0.1, n)) for n in (10, 10, 20)]
    constrained = [served(0.0, stream(0.2, 0.2, n)) for n in (10, 30)]
    assert cost_at_equal_lengths(free, constrained) == pytest.approx(2.0)
    assert cost_at_equal_lengths(free, [served(0.0, stream(0.2, 0.2, 7))]) is None


def test_agreement_counts_tokens_before_the_first_that_differs() -> None:
    one = {"a": [1, 2, 3], "b": [4, 5, 6], "c": [7]}
    other = {"a": [1, 2, 3], "b": [4, 9, 6], "d": [7]}
    found = agreement(one, other)
    assert (found.prompts, found.equal_prompts) == (2, 1)
    assert (found.tokens, found.leading_tokens) == (6, 4)
    assert found.equal_ratio == pytest.approx(2 / 3)


def test_a_longer_answer_does_not_agree_with_its_beginning() -> None:
    assert agreement({"a": [1, 2]}, {"a": [1, 2, 3, 4]}).equal_ratio == 0.5
    assert agreement({}, {}).equal_ratio is None


TOKENS = st.lists(st.integers(0, 3), max_size=8)


@given(one=TOKENS, other=TOKENS)
def test_agreement_is_symmetric_and_full_only_for_equal_answers(
    one: list[int], other: list[int]
) -> None:
    there, back = agreement({"p": one}, {"p": other}), agreement({"p": other}, {"p": one})
    assert there == back
    assert (there.equal_prompts == 1) == (one == other)


def test_goodput_counts_failed_requests_as_not_served() -> None:
    fast, slow = served(0.0, [0.1, 0.2, 0.3]), served(0.0, [0.9, 1.0, 1.1])
    failed = served(0.0, [], outcome="refused")
    warm = served(0.0, [9.0], warmup=True)
    limits = Limits(ttft_s=0.5)
    assert goodput_ratio([fast, slow, failed, warm], limits) == pytest.approx(1 / 3)
    assert goodput_ratio([fast, slow], Limits()) == 1
    assert goodput_ratio([fast, slow], Limits(tpot_s=0.05)) == 0
    assert goodput_ratio([fast, slow], Limits(e2e_s=1.0)) == 0.5
    assert goodput_ratio([warm], limits) is None


def test_the_articles_example_needs_nine_instances() -> None:
    assert instances(20, 4, 0.7) == 8
    assert instances(20, 4, 0.7, spares=1) == 9


def test_instances_are_not_one_too_many_for_binary_fractions() -> None:
    assert instances(2.1, 0.7, 1.0) == 3
    assert instances(0.3, 0.1, 1.0) == 3


@pytest.mark.parametrize(("capacity_per_s", "utilisation_ratio"), [(0, 0.7), (4, 0)])
def test_no_number_of_servers_without_capacity_is_enough(
    capacity_per_s: float, utilisation_ratio: float
) -> None:
    with pytest.raises(ValueError, match="over 0"):
        instances(20, capacity_per_s, utilisation_ratio)
