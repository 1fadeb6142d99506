"""What a plan may be expected to give: simulated tables, nothing started, errors named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from engines.sim.predict import Boot
from runner import tables
from runner.cli import main
from runner.errors import ExperimentError
from runner.experiment.night import read_night
from runner.experiment.read import read
from runner.experiment.stand_in import stood_in
from runner.launchers import Launcher
from runner.load import Ask
from runner.load.floor import Floor
from runner.nights.nightly import nightly
from runner.nights.page import page_of
from runner.plan import expand
from runner.run import execute
from runner.stored.frames import Results, results
from runner.world import World

FILE = """
question = "Which engine is faster on a GPU that is not here?"
boots = 2
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 4096
max_running = 64
gpus = 1
[engines.vllm]
image = "vllm/vllm-openai:v0.31.0"
memory = { fraction = 0.85 }
[engines.sglang]
image = "lmsysorg/sglang:v0.5.21"
memory = { fraction = 0.8 }
[[loads]]
workload = "random"
input_tokens = 512
output_tokens = 16
concurrency = [1, 4]
requests = 12
"""
SESSIONS = """
[[loads]]
workload = "multi_turn"
sessions = 3
turns = 3
user_tokens = 64
answer_tokens = 8
think_s = 0.5
concurrency = 3
requests = 9
[[loads]]
name = "open"
workload = "random"
input_tokens = 64
output_tokens = 8
rate_per_s = 10
duration_s = 2
"""


def written(folder: Path, text: str = FILE, name: str = "asked") -> Path:
    path = folder / f"{name}.toml"
    path.write_text(text)
    return path


def no_launcher(kind: str) -> Launcher:
    class Nothing:
        def __getattr__(self, name: str) -> object:
            raise AssertionError(f"a prediction used {name} of the {kind} launcher")

    nothing: Launcher = Nothing()  # type: ignore[assignment]
    return nothing


NO_FLOOR = Floor(
    in_flight=0,
    ttft_error_p50_s=None,
    ttft_error_p99_s=None,
    itl_error_p50_s=None,
    itl_error_p99_s=None,
    output_tokens_per_s=None,
    cpu_per_token_s=None,
)
WORLD = World(launcher=no_launcher, nvml=lambda: None, sweep=lambda kinds: ())


def predicted(folder: Path, text: str = FILE, gpu: str | None = None) -> Results:
    plan = expand(stood_in(read(written(folder, text)), gpu))
    summary = execute(plan, WORLD, folder / "results")
    return results(summary.folder, runs=[summary.run_id])


def asked(folder: Path, *words: str, text: str = FILE) -> tuple[int, str]:
    found = CliRunner().invoke(main, ["plan", str(written(folder, text)), *words])
    return found.exit_code, found.output


def test_a_plan_for_a_gpu_predicts_its_tables_and_says_how_far_it_may_be_off(
    tmp_path: Path,
) -> None:
    code, text = asked(tmp_path, "--predict")
    assert code == 0
    assert "PREDICTED on GPU profile laptop-8gb" in text
    assert "output_tokens_per_s 9%" in text
    assert "SIMULATED" in text
    for title in ("Start-up and KV capacity", "Throughput", "TTFT", "What is compared"):
        assert title in text
    assert "The client's proof" not in text
    assert not (tmp_path / "results").exists()


def test_a_gpu_that_was_never_held_against_measurements_promises_nothing(tmp_path: Path) -> None:
    code, text = asked(tmp_path, "--predict", "--gpu", "h100-80gb")
    assert code == 0
    assert "how far its figures are off is unknown" in " ".join(text.split())


def test_a_gpu_that_nobody_knows_is_refused_with_those_there_are(tmp_path: Path) -> None:
    code, text = asked(tmp_path, "--predict", "--gpu", "h100")
    assert code == 2
    assert "h100-80gb" in text
    assert asked(tmp_path, "--gpu", "h100-80gb")[0] == 2


def test_every_row_of_a_prediction_is_marked_and_nothing_is_started(tmp_path: Path) -> None:
    found = predicted(tmp_path)
    assert list(found.boots.outcome) == ["done"] * 4
    assert bool(found.boots.simulated.all())
    assert bool(found.cells.simulated.all())
    assert set(found.boots.version) == {"0.31.0", "0.5.21"}
    assert found.loads.output_tokens_per_s.gt(0).all()
    assert found.loads.client_lag_p50_s.isna().all()


def test_a_warm_compile_cache_leaves_vllm_more_memory_than_none(tmp_path: Path) -> None:
    warm = predicted(tmp_path)
    none = predicted(tmp_path, FILE + '[cache]\ncompile = "none"\n')

    def first(found: Results) -> tuple[int, float]:
        own = found.boots[(found.boots.version == "0.31.0") & (found.boots.boot == 0)]
        return int(own.kv_tokens.iloc[0]), float(own.ready_s.iloc[0])

    assert first(warm) == (27_504, 45.0)
    assert first(none) == (22_048, 71.0)


NOISY = """
question = "Is a restart's chance its own?"
boots = 5
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
memory = { kv_tokens = 8192 }
[engines.one]
engine = "vllm"
max_running = 8
simulate = { gpu = "laptop-8gb", boot_sd_ratio = 0.05 }
[engines.other]
engine = "vllm"
max_running = 9
simulate = { gpu = "laptop-8gb", boot_sd_ratio = 0.05 }
[[loads]]
workload = "random"
input_tokens = 64
output_tokens = 16
concurrency = 1
requests = 4
"""


def test_the_same_boot_of_a_cell_draws_the_same_and_cells_draw_independently(
    tmp_path: Path,
) -> None:
    rates = []
    for attempt in ("first", "second"):
        (tmp_path / attempt).mkdir()
        found = predicted(tmp_path / attempt, NOISY)
        names = found.cells.set_index("cell_id").name
        loads = found.loads.assign(cell=found.loads.cell_id.map(names))
        rates.append(loads.set_index(["cell", "boot"]).output_tokens_per_s.to_dict())
    assert rates[0] == rates[1]
    ratios = [rates[0]["one", boot] / rates[0]["other", boot] for boot in range(5)]
    assert max(ratios) / min(ratios) > 1.03  # equal draws would give equal ratios


def test_a_compiling_start_of_vllm_moves_ttft_where_not_all_requests_fit(tmp_path: Path) -> None:
    file = (Path(__file__).parents[1] / "experiments" / "startup.toml").read_text()
    found = predicted(tmp_path, file.replace("boots = 5", "boots = 1", 1))
    label = found.cells.set_index("cell_id").label
    vllm = found.loads.assign(label=found.loads.cell_id.map(label)).set_index(["label", "load"])
    cold, warm = (vllm.ttft_p50_s[f"vllm compile={policy}"] for policy in ("none", "per_cell"))
    assert 2.2 <= cold["random@c64"] / warm["random@c64"] <= 3.0
    assert cold["random@c32"] == pytest.approx(warm["random@c32"], rel=0.02)


def test_an_engine_without_room_for_kv_is_predicted_to_fail_with_its_cause(
    tmp_path: Path,
) -> None:
    found = predicted(tmp_path, FILE.replace("0.85", "0.4"))
    failed = found.boots[found.boots.outcome == "failed"]
    assert list(failed.cause) == ["kv_no_memory"] * 2
    assert failed.ready_s.isna().all()


def test_sessions_and_arrivals_are_predicted_in_their_order(tmp_path: Path) -> None:
    found = predicted(tmp_path, FILE + SESSIONS)
    turns = found.requests[(found.requests.load == "multi_turn@c3") & ~found.requests.warmup]
    for _, own in turns.groupby(["cell_id", "boot", "group"]):
        ended = own.sort_values("request")
        waits_ns = ended.sent_ns.iloc[1:].to_numpy() - ended.ended_ns.iloc[:-1].to_numpy()
        assert (waits_ns >= 0.5e9).all()
    timed = found.requests[found.requests.load == "open@r10"]
    inside = timed[~timed.warmup]
    assert inside.intended_ns.between(0, 2e9).all()
    assert (inside.sent_ns == inside.intended_ns).all()


def test_an_engine_that_has_no_simulation_is_named(tmp_path: Path) -> None:
    text = FILE.replace("[engines.sglang]", '[engines.other]\nengine = "toy"')
    path = written(tmp_path, text)
    with pytest.raises(ExperimentError):
        stood_in(read(path))


def test_exec_and_nightly_simulate_what_they_would_start(tmp_path: Path) -> None:
    path, folder = written(tmp_path), tmp_path / "results"
    words = ["exec", str(path), "--simulate", "--results", str(folder)]
    found = CliRunner().invoke(main, words)
    assert found.exit_code == 0
    assert "SIMULATED" in found.output
    assert "4 of 4 boots stored" in found.output
    assert "0 started now" in CliRunner().invoke(main, words).output


def test_a_simulated_night_has_the_articles_figures_beside_its_own(tmp_path: Path) -> None:
    loads = FILE.replace("output_tokens = 16", "output_tokens = 128")
    written(tmp_path, loads.replace("[1, 4]", "1"), "throughput_512")
    night = tmp_path / "night.toml"
    night.write_text('experiments = ["throughput_512.toml"]\n')
    read_in = read_night(night, simulate=True)
    shares = nightly(read_in, WORLD, tmp_path / "results", name="n1")
    page = page_of(shares, read_in.keys, tmp_path / "results", "n1")
    assert "SIMULATED" in page.head
    [line] = [line for line in page.text.splitlines() if "sglang at 1: output_tokens_per_s" in line]
    article, ours = (cell.strip() for cell in line.split("|")[3:5])
    assert article == "66"
    assert all(abs(float(value) / 66 - 1) < 0.1 for value in ours.split(" / "))


def test_of_cells_that_differ_in_compiling_each_figure_is_held_against_its_own_once(
    tmp_path: Path,
) -> None:
    file = (Path(__file__).parents[1] / "experiments" / "startup.toml").read_text()
    file = file.replace("boots = 5", "boots = 2", 1)
    found = predicted(tmp_path, file.replace("[1, 32, 64]", "[32]", 1))
    shown = tables.get("article").build(found)
    assert shown is not None
    held = shown.frame.groupby("figure").cell.agg(list).to_dict()
    assert held["vllm at 32: output_tokens_per_s_over_sglang_ratio"] == ["vllm compile=per_cell"]
    for engine in ("vllm", "sglang"):
        assert held[f"{engine}: ready_first_s"] == [f"{engine} compile=none"]
        assert held[f"{engine}: ready_again_s"] == [f"{engine} compile=per_cell"]
    assert all(len(cells) == 1 for cells in held.values())


def requests(count: int) -> Iterator[Ask]:
    body = b'{"model": "tiny", "prompt": [%s], "max_tokens": 4, "ignore_eos": true}'
    for number in range(count):
        yield Ask(body=body % b",".join(b"%d" % (100 + number + place) for place in range(20)))


def test_what_a_server_would_refuse_is_no_answer() -> None:
    flags = ["vllm", "--model", "tiny", "--max-model-len", "16", "--gpu-memory-utilization", "0.9"]
    boot = Boot([*flags, "--simulate", '{"gpu": "laptop-8gb", "boot": 1}'])
    assert boot.alive
    _, lines = boot.load("/v1/completions", requests(3), concurrency=2)
    assert [bool(line.ask.refused) for line in lines] == [True] * 3
    assert [line.token_s for line in lines] == [[]] * 3


def test_a_flag_that_the_engine_does_not_know_ends_a_predicted_start() -> None:
    boot = Boot(["vllm", "--model", "tiny", "--max-batched-tokenz", "5"])
    assert not boot.alive
    assert boot.ready_s is None
    assert any("unrecognized arguments: --max-batched-tokenz 5" in line for line in boot.log)


SERVED = """
question = "Do both say the same?"
boots = 1
[common]
model = "Qwen/Qwen3-1.7B"
context_tokens = 2048
max_running = 8
[engines.vllm]
simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 20 }
memory = { kv_tokens = 8192 }
[engines.sglang]
simulate = { gpu = "laptop-8gb", startup_s = 0.1, speed = 20 }
memory = { kv_tokens = 8192 }
[[loads]]
workload = "shared_prefix"
prefixes = 2
prefix_tokens = 200
suffix_tokens = 20
output_tokens = 4
concurrency = 1
requests = 12
"""


def test_a_server_and_its_prediction_find_the_same_in_the_prefix_cache(tmp_path: Path) -> None:
    experiment = read(written(tmp_path, SERVED))
    served_by = World(floor=lambda client: NO_FLOOR, nvml=lambda: None)
    served = execute(expand(experiment), served_by, tmp_path / "served")
    offline = execute(expand(stood_in(experiment)), WORLD, tmp_path / "offline")
    asked = ["engine", "request", "warmup", "input_tokens", "output_tokens", "cached_tokens"]
    tables = []
    for summary in (served, offline):
        found = results(summary.folder)
        rows = found.requests.merge(found.cells[["cell_id", "engine"]], on="cell_id")
        tables.append(rows.sort_values(["engine", "request"])[asked].to_dict("records"))
    assert tables[0] == tables[1]
    assert sum(row["cached_tokens"] for row in tables[0]) > 0


def test_all_requests_at_once_are_predicted_with_their_doubt(tmp_path: Path) -> None:
    found = predicted(tmp_path, FILE.replace("concurrency = [1, 4]", 'rate_per_s = "inf"'))
    names = [{doubt["name"] for doubt in doubts} for doubts in found.loads.doubts]
    assert names
    assert all("all_at_once" in each for each in names)


def test_a_queue_in_the_client_is_not_predicted(tmp_path: Path) -> None:
    capped = FILE.replace("concurrency = [1, 4]", "rate_per_s = 4\nmax_in_flight = 2")
    code, text = asked(tmp_path, "--predict", text=capped)
    assert code == 2
    assert "max_in_flight cannot be predicted" in text
