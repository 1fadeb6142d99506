"""What a load knows of its own accuracy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """How well the client did what it was asked, and how exact its times are.

    Attributes:
        asked_in_flight: requests to hold in flight, None in open loop.
        held_in_flight_ratio: mean in flight over the steady window by what was asked; None in open
            loop.
        max_in_flight: cap on requests in flight of an open loop, None where there is none.
        drawn_per_s: arrivals per second of the drawn schedule, None in closed loop.
        sent_per_s: requests sent per second from the first send to the last.
        off_schedule_ratio: how far the span of the sends is off the span of the schedule, None in
            closed loop.
        send_lag_p50_s: from the intended time (closed loop: from the end of the request before in
            the same slot) to the send, median.
        send_lag_p99_s: the same, 99 % quantile.
        send_lag_max_s: the same, largest.
        sending_p99_s: time a request's first write took, 99 % quantile: its send stamp precedes it.
        client_lag_p50_s: own stamp of a read minus the kernel's, median; None without stamps.
        client_lag_p99_s: the same, 99 % quantile.
        client_lag_max_s: the same, largest.
        loop_delay_p50_s: lateness of a 10 ms tick in the measured loop, median.
        loop_delay_p99_s: the same, 99 % quantile.
        loop_delay_max_s: the same, largest.
        reads: reads from sockets.
        received_bytes: bytes they brought.
        several_chunks_ratio: share of token-carrying reads that held more than one chunk.
        unstamped_ratio: share of reads without a kernel stamp.
        remaining_error_p50_s: error left in the time of a chunk after kernel stamps, median: 0 (and
            the clock's error) for the last chunk of a stamped read, else at most the span in
            which it must have come, plus the loop's delay.
        remaining_error_p99_s: the same, 99 % quantile.
        clock_error_s: error of mapping kernel stamps onto CLOCK_MONOTONIC.
        clock_steps: times the time of day was set during the load: stamps around them are off.
        cpu_s: CPU seconds of each worker, from opening to end.
        cpu_per_token_s: their sum by tokens received.
        parse_cpu_s: CPU seconds of the processes that parsed answers beside the workers.
        tokens_by_chunks: output tokens counted chunk by chunk in successful requests.
        tokens_by_usage: output tokens of the same requests by the server's usage.
        input_mismatches: successful requests whose input tokens the server counts otherwise.
        connections: connections opened.
        start_s: from the start of the workers to the first request.
        stamp: `kernel`, `user`, or `mixed` where only some requests are stamped by the kernel.
        workers: worker processes.
        cpus: cores they were pinned to, empty where they were not.
        way: how the address reaches the server.
    """

    asked_in_flight: int | None = None
    held_in_flight_ratio: float | None = None
    max_in_flight: int | None = None
    drawn_per_s: float | None = None
    sent_per_s: float | None = None
    off_schedule_ratio: float | None = None
    send_lag_p50_s: float | None = None
    send_lag_p99_s: float | None = None
    send_lag_max_s: float | None = None
    sending_p99_s: float | None = None
    client_lag_p50_s: float | None = None
    client_lag_p99_s: float | None = None
    client_lag_max_s: float | None = None
    loop_delay_p50_s: float | None = None
    loop_delay_p99_s: float | None = None
    loop_delay_max_s: float | None = None
    reads: int = 0
    received_bytes: int = 0
    several_chunks_ratio: float | None = None
    unstamped_ratio: float | None = None
    remaining_error_p50_s: float | None = None
    remaining_error_p99_s: float | None = None
    clock_error_s: float | None = None
    clock_steps: int = 0
    cpu_s: tuple[float, ...] = ()
    cpu_per_token_s: float | None = None
    parse_cpu_s: float = 0.0
    tokens_by_chunks: int = 0
    tokens_by_usage: int = 0
    input_mismatches: int = 0
    connections: int = 0
    start_s: float | None = None
    stamp: str = "user"
    workers: int = 1
    cpus: tuple[int, ...] = ()
    way: str = "loopback"
