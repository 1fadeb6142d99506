"""The faults of a night: how each is brought about, and what must be seen of it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from runner.stored.frames import results
from tests.docker.campaign.bed import Bed, Exec


@dataclass(frozen=True, kw_only=True)
class Images:
    """Images of this machine: one with Python alone, one with the simulated engine."""

    base: str
    simulated: str


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What is seen of a fault.

    Attributes:
        code: exit code of `exec`.
        boots: each boot as `outcome phase cause`, in the order they ran.
        says: words that the command prints.
        leftovers: containers, processes and half files that are still there.
    """

    code: int
    boots: tuple[str, ...] = ()
    says: str = ""
    leftovers: int = 0

    def __str__(self) -> str:
        said = f' says "{self.says}"' if self.says else ""
        left = f", {self.leftovers} LEFT" if self.leftovers else ""
        return f"exit {self.code}: {', '.join(self.boots) or 'no boot'}{said}{left}"


@dataclass(frozen=True, kw_only=True)
class Scene:
    """Where a fault happens: its bed, and the words to look for in what is printed."""

    bed: Bed
    says: str

    def seen(self, under_way: Exec) -> Outcome:
        """Wait for the end of an `exec`; return what is seen of it."""
        code, told = under_way.wait(), under_way.text
        if code == 1 and "failed, see" not in told:
            code = 0  # a busy machine makes loads void, which is no fault of this list
        if "Traceback" in told:
            said = told[told.index("Traceback") :][-1500:]
        else:
            said = self.says if self.says in told else told.strip()[-200:]
        return Outcome(code=code, boots=self.boots(), says=said, leftovers=self.leftovers())

    def boots(self) -> tuple[str, ...]:
        """Return the stored boots in words."""
        if not (self.bed.stored / "boots").exists():
            return ()
        boots = results(self.bed.stored).boots.sort_values(["order", "attempt"])
        words = boots[["outcome", "phase", "cause"]].fillna("").itertuples(index=False)
        return tuple(" ".join(word for word in row if word) for row in words)

    def leftovers(self) -> int:
        """Return how many containers, processes and half files are there a moment later."""
        deadline_s = time.monotonic() + 5
        while self.bed.processes() and time.monotonic() < deadline_s:
            time.sleep(0.1)
        return len([*self.bed.containers(), *self.bed.processes(), *self.bed.drafts()])


Happen = Callable[[Scene], Outcome]


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One fault.

    Attributes:
        name: what happens.
        expected: what must be seen.
        act: runs `exec` and brings the fault about.
        keys: what the experiment file holds besides, for `Bed`.
        image: which image the engine is started from, where it is not the simulated engine's.
    """

    name: str
    expected: Outcome
    act: Happen
    keys: Mapping[str, Any]
    image: str = ""


def outcome_of(fault: Fault, folder: Path, images: Images) -> Outcome:
    """Let a fault happen; return what is seen of it."""
    image = images.base if fault.image == "base" else fault.image or images.simulated
    bed = Bed(folder=folder, image=image, keys=fault.keys)
    return fault.act(Scene(bed=bed, says=fault.expected.says))


def plainly(scene: Scene) -> Outcome:
    """Run `exec`; the fault is in the file."""
    return scene.seen(scene.bed.exec())


def under_load(*command: str) -> Happen:
    """Return an act: a Docker command on the container, while it is loaded."""

    def act(scene: Scene) -> Outcome:
        under_way = scene.bed.exec()
        under_way.until("random@c1")
        time.sleep(0.3)
        for container in scene.bed.containers():
            subprocess.run(["docker", *command, container], check=True, capture_output=True)
        return scene.seen(under_way)

    return act


def signalled(*numbers: int) -> Happen:
    """Return an act: signals to the runner, while it loads."""

    def act(scene: Scene) -> Outcome:
        under_way = scene.bed.exec()
        under_way.until("random@c1")
        for number in numbers:
            under_way.send(number)
            time.sleep(0.05)
        return scene.seen(under_way)

    return act


def held_results(scene: Scene) -> Outcome:
    """Start a second `exec` on the same results."""
    first = scene.bed.exec()
    first.until("random@c1")
    code = (second := scene.bed.exec()).wait()
    first.send(signal.SIGTERM)
    first.wait()
    said = scene.says if scene.says in second.text else second.text
    return Outcome(code=code, says=said, leftovers=scene.leftovers())


def half_a_file(scene: Scene) -> Outcome:
    """Cut a stored part in two and put a stranger beside it, then go on with another boot."""
    scene.bed.exec().wait()
    [part] = (scene.bed.stored / "boots").rglob("*.parquet")
    whole = part.read_bytes()
    part.write_bytes(whole[: len(whole) // 2])
    part.with_name("999-stranger-a1.parquet").write_bytes(b"not Parquet")
    return scene.seen(scene.bed.exec())


def taken_name(scene: Scene) -> Outcome:
    """Give another container the name that the next boot will ask for."""
    first = scene.bed.exec()
    first.until("random@c1")
    first.send(signal.SIGTERM)
    first.wait()
    [run] = (scene.bed.stored / "runs").glob("*.json")
    [boot] = results(scene.bed.stored).boots.to_dict("records")
    name = f"runner-{run.stem}-000-{boot['cell_id']}-a2"
    subprocess.run(
        ["docker", "create", "--name", name, scene.bed.image, "true"],
        check=True,
        capture_output=True,
    )
    try:
        return scene.seen(scene.bed.exec())
    finally:
        subprocess.run(["docker", "rm", "-f", name], check=True, capture_output=True)


LONG: Final = {"requests": 16, "output_tokens": 32}


def _failed(what: str, code: int = 1) -> Outcome:
    return Outcome(code=code, boots=(f"failed {what}",))


FAULTS: Final = (
    Fault(name="none", expected=Outcome(code=0, boots=("done",)), act=plainly, keys={}),
    Fault(
        name="crash while it starts",
        expected=_failed("ready gated_model"),
        act=plainly,
        keys={"simulate": ', crash_at = "weights"'},
    ),
    Fault(
        name="hang while it starts",
        expected=_failed("ready never_ready"),
        act=plainly,
        keys={"simulate": ', hang_at = "weights"', "ready_s": 3},
    ),
    Fault(
        name="another model on the port",
        expected=_failed("ready wrong_model"),
        act=plainly,
        keys={"simulate": ', wrong_model = "another/model"'},
    ),
    Fault(
        name="answers without a token",
        expected=_failed("ready no_token"),
        act=plainly,
        keys={"simulate": ", zero_tokens = true"},
    ),
    Fault(
        name="device memory ends under load",
        expected=_failed("load oom_serving"),
        act=plainly,
        keys={"simulate": ", oom_under_load = 2", "requests": 8},
    ),
    Fault(
        name="killed by itself under load",
        expected=_failed("load killed"),
        act=plainly,
        keys={"simulate": ", die_after_requests = 6", "requests": 8},
    ),
    Fault(
        name="no token comes at all",
        expected=_failed("ready no_token"),
        act=plainly,
        keys={"simulate": ', hang_at = "load"', "ready_s": 3},
    ),
    Fault(
        name="host memory ends (container's limit)",
        expected=_failed("ready oom_killed"),
        act=plainly,
        keys={"common": "memory_limit_bytes = 12_000_000"},
    ),
    Fault(
        name="docker kill under load",
        expected=_failed("load killed"),
        act=under_load("kill"),
        keys=LONG,
    ),
    Fault(
        name="docker rm -f under load",
        expected=_failed("load removed"),
        act=under_load("rm", "-f"),
        keys=LONG,
    ),
    Fault(
        name="the image lacks the program",
        expected=_failed("ready exited"),
        act=plainly,
        keys={},
        image="base",
    ),
    Fault(
        name="image missing",
        expected=Outcome(code=3, says="docker pull nobody/has-this:1.0"),
        act=plainly,
        keys={},
        image="nobody/has-this:1.0",
    ),
    Fault(
        name="container's name is taken",
        expected=Outcome(
            code=1,
            boots=("interrupted load interrupted", "failed create docker_failed"),
            says="runner clean",
        ),
        act=taken_name,
        keys=LONG,
    ),
    Fault(
        name="results locked by another exec",
        expected=Outcome(code=3, says="is writing these results"),
        act=held_results,
        keys=LONG,
    ),
    Fault(
        name="half a part, and a stranger's file",
        expected=Outcome(code=0, boots=("done",), says="1 started now"),
        act=half_a_file,
        keys={},
    ),
    Fault(
        name="SIGTERM",
        expected=Outcome(code=130, boots=("interrupted load interrupted",), says="is stored"),
        act=signalled(signal.SIGTERM),
        keys=LONG,
    ),
    Fault(
        name="SIGINT twice",
        expected=Outcome(code=130, boots=("interrupted load interrupted",), says="is stored"),
        act=signalled(signal.SIGINT, signal.SIGINT),
        keys=LONG,
    ),
    Fault(
        name="SIGHUP",
        expected=Outcome(code=130, boots=("interrupted load interrupted",), says="is stored"),
        act=signalled(signal.SIGHUP),
        keys=LONG,
    ),
)
