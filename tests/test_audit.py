"""The wire is a second clock: segments in any order give the same answers."""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from runner.audit import command
from runner.errors import HostError
from runner.load import Timeline
from runner.load.compare import against_wire, matched
from runner.load.drive import drive
from runner.load.golden import Plan
from runner.load.golden.process import golden_ask, served
from runner.load.golden.script import Asked, script_of
from runner.load.wire import interface_to, tapped
from runner.load.wire.filter import Instruction, program
from runner.load.wire.segments import Flow, Segment

PORT = 8000
CLIENT = b"\x7f\x00\x00\x01\x90\x01"


@pytest.fixture(scope="module")
def may_tap(tmp_path_factory: pytest.TempPathFactory) -> None:
    try:
        with tapped(tmp_path_factory.mktemp("tap"), port=9):
            pass
    except HostError as error:
        pytest.skip(str(error))


def packet(source: int, target: int, *, protocol: int = 6, fragment: int = 0) -> bytes:
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 44, 0, fragment, 64, protocol, 0, b"abcd", b"efgh")
    return head + struct.pack("!HHIIHHHH", source, target, 1, 0, 0x5000, 0, 0, 0)


def packet6(source: int, target: int, *, protocol: int = 6) -> bytes:
    head = struct.pack("!IHBB16s16s", 6 << 28, 24, protocol, 64, bytes(16), bytes(16))
    return head + struct.pack("!HHIIHHHH", source, target, 1, 0, 0x5000, 0, 0, 0)


def accepts(instructions: Sequence[Instruction], data: bytes, kind: int = 0) -> bool:
    """Run a program as the kernel would."""
    at, a, x = 0, 0, 0
    while True:
        code, yes, no, k = instructions[at]
        at += 1
        if code == 0x06:
            return k > 0
        if code in {0x28, 0x30, 0x48}:
            start, size = (k + x, 2) if code == 0x48 else (k, 2 if code == 0x28 else 1)
            a = int.from_bytes(data[start : start + size], "big")
        elif code == 0x20:
            a = kind
        elif code == 0xB1:
            x = 4 * (data[k] & 15)
        elif code == 0x74:
            a >>= k
        elif code == 0x54:
            a &= k
        elif code == 0x05:
            at += k
        else:
            at += yes if (a == k if code == 0x15 else a & k) else no


@pytest.mark.parametrize("make", [packet, packet6], ids=["IPv4", "IPv6"])
def test_the_filter_lets_the_server_s_port_through_both_ways(make: object) -> None:
    instructions = program(PORT, loopback=False)
    assert callable(make)
    assert accepts(instructions, make(40_000, PORT))
    assert accepts(instructions, make(PORT, 40_000))
    assert not accepts(instructions, make(40_000, 8001))
    assert not accepts(instructions, make(PORT, 40_000, protocol=17))


def test_the_filter_drops_fragments_and_what_is_no_ip() -> None:
    instructions = program(PORT, loopback=False)
    assert not accepts(instructions, packet(PORT, 40_000, fragment=7))
    assert not accepts(instructions, b"\x20" + bytes(60))


def test_on_loopback_each_packet_is_taken_once() -> None:
    instructions = program(PORT, loopback=True)
    assert accepts(instructions, packet(PORT, 40_000), kind=0)
    assert not accepts(instructions, packet(PORT, 40_000), kind=4)


def test_sampling_takes_whole_connections() -> None:
    instructions = program(PORT, loopback=False, one_in=4)
    taken = [
        port
        for port in range(40_000, 40_064)
        if accepts(instructions, packet(port, PORT)) and accepts(instructions, packet(PORT, port))
    ]
    either = [port for port in range(40_000, 40_064) if accepts(instructions, packet(port, PORT))]
    assert taken == either
    assert len(taken) == 16


def test_sampling_is_by_a_power_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        program(PORT, loopback=True, one_in=3)


def exchange() -> list[Segment]:
    """Return a connection with one request in two segments and its answer, one write each."""
    script = script_of(Plan(), Asked(input_tokens=3, output_tokens=6, usage=True, continuous=True))
    client, server = 2**32 - 50, 2**32 - 1000
    found = [
        Segment(1, CLIENT, False, client, True, b""),
        Segment(2, CLIENT, True, server, True, b""),
        Segment(10, CLIENT, False, client + 1, False, b"POST /v1/completions".ljust(40)),
        Segment(11, CLIENT, False, client + 41, False, b"y" * 40),
    ]
    sequence = server + 1
    for number, data in enumerate(script.writes):
        found.append(Segment(100 + number, CLIENT, True, sequence, False, data))
        sequence += len(data)
    return [replace(one, sequence=one.sequence % 2**32) for one in found]


def read(segments: Sequence[Segment]) -> list[Timeline]:
    flow = Flow()
    return [one for segment in segments for one in flow.take(segment)]


def test_a_request_counts_from_its_first_segment_and_each_chunk_from_its_own() -> None:
    (one,) = read(exchange())
    assert one.sent_ns == 10
    assert one.chunk_ns == (101, 102, 103, 104, 105, 106)
    assert one.chunk_tokens == (1,) * 6
    assert (one.outcome, one.output_tokens, one.stamp) == ("ok", 6, "wire")


def test_only_posted_requests_count() -> None:
    segments = exchange()
    segments[2] = replace(segments[2], payload=b"GET /health".ljust(40))
    assert read(segments) == []


def test_segments_sent_again_count_once() -> None:
    twice = [segment for segment in exchange() for _ in range(2)]
    assert read(twice) == read(exchange())


@given(st.integers(0, 2**32))
def test_segments_out_of_order_give_the_same_tokens(seed: int) -> None:
    segments = exchange()
    answer = segments[4:]
    random.Random(seed).shuffle(answer)
    (one,) = read([*segments[:4], *answer])
    assert sum(one.chunk_tokens) == 6
    assert one.outcome == "ok"


def test_a_connection_that_begins_anew_ends_the_request_before() -> None:
    segments = exchange()
    (one,) = read([*segments[:7], segments[0]])
    assert one.outcome == "truncated"
    assert len(one.chunk_ns) == 2


def timelines(*requests: tuple[int, int, int]) -> Iterator[Timeline]:
    for number, (sent, first, last) in enumerate(requests):
        yield Timeline(request=number, sent_ns=sent, chunk_ns=(first, last))


def test_requests_of_the_wire_find_their_own() -> None:
    seen = list(timelines((10, 100, 200), (11, 150, 300), (50, 90, 95)))
    wire = list(timelines((12, 149, 299), (13, 99, 199), (51, 88, 94)))
    assert [one.request for one in matched(seen, wire)] == [1, 0, 2]


def test_a_request_of_the_wire_that_nobody_sent_is_left_out() -> None:
    assert list(matched(timelines((10, 100, 200)), list(timelines((5, 90, 100))))) == []


@pytest.mark.usefixtures("may_tap")
def test_the_tap_agrees_with_the_truth_to_the_token(tmp_path: Path) -> None:
    with (
        served(Plan(ttft_s=0.02, itl_s=0.002), tmp_path / "truth") as golden,
        tapped(tmp_path / "tap", port=golden.port) as tap,
    ):
        driven = drive(
            target=golden.target(),
            asks=[golden_ask(number, output_tokens=20) for number in range(30)],
            in_flight=5,
            request_timeout_s=10,
            spool=tmp_path / "spool",
        )
    wire = tap.timelines()
    assert len(wire) == 30
    assert sum(sum(one.chunk_tokens) for one in wire) == 600
    assert tap.wire is not None
    assert tap.wire.lost == 0
    own = list(matched(driven.timelines(), wire))
    assert sorted(one.request for one in own) == list(range(30))
    assert against_wire(driven.timelines, wire).ttft.count == 30
    truth = {one.request: one for one in golden.truth()}
    for one in own:
        assert all(
            seen_ns >= sent_ns
            for seen_ns, sent_ns in zip(one.chunk_ns, truth[one.request].chunk_ns, strict=True)
        )


CURL = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=10)
for tokens in (3, 4):
    body = json.dumps({"prompt": [1], "max_tokens": tokens, "stream": True})
    connection.request("POST", "/v1/completions", body=body)
    connection.getresponse().read()
"""


@pytest.mark.usefixtures("may_tap")
def test_any_client_can_be_audited(tmp_path: Path) -> None:
    with served(Plan(ttft_s=0.02, itl_s=0.002), tmp_path / "truth") as golden:
        port = str(golden.port)
        words = ["--port", port, "--", sys.executable, "-c", CURL, port]
        result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    assert "2 ok" in result.output
    assert "TTFT in ms" in result.output


@pytest.mark.usefixtures("may_tap")
def test_a_client_that_fails_is_told_apart_from_a_quiet_one(tmp_path: Path) -> None:
    result = CliRunner().invoke(
        command, ["--port", "9", "--", sys.executable, "-c", "raise SystemExit(3)"]
    )
    assert result.exit_code == 1
    assert "requests on the wire" in result.output


def test_the_way_to_this_machine_is_loopback() -> None:
    assert interface_to("127.0.0.1") == "lo"


def test_a_tap_that_is_not_allowed_says_what_it_needs(tmp_path: Path) -> None:
    with (
        pytest.raises(HostError, match="CAP_NET_RAW"),
        tapped(tmp_path, port=9, interface="nosuchinterface"),
    ):
        pass
