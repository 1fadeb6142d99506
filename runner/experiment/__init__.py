"""The keys of an experiment file, with their types and defaults.

`read` makes an `Experiment` of a file or complains; `runner.plan` makes cells and boots of it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from engines import Sampling
from runner.experiment.keys import Keys
from runner.experiment.searched import Capacity, Search
from runner.experiment.stages import Stage

Launch = Literal["docker", "process", "attach"]
Compile = Literal["per_cell", "none"]


class Memory(Keys):
    """What the KV cache gets: exactly one of three, for one number never has two meanings."""

    fraction: float | None = Field(default=None, gt=0, le=1)
    kv_tokens: PositiveInt | None = None
    kv_bytes: PositiveInt | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Self:
        given = self.model_dump(exclude_none=True)
        if len(given) != 1:
            listed = " and ".join(given) or "none"
            raise ValueError(f"give exactly one of fraction, kv_tokens, kv_bytes (found {listed})")
        return self


class Expect(Keys):
    """An outcome that is the answer, not a failure of the night."""

    outcome: Literal["done", "failed"]
    cause: str | None = None


class Settings(Keys):
    """The engine-neutral settings, each as `engines.settings.CATALOGUE` explains it."""

    chunk_tokens: PositiveInt | None = None
    mixed_chunk: bool | None = None
    memory: Memory | None = None
    prefix_cache: bool | None = None
    weights: str | None = None
    dtype: str | None = None
    kv_dtype: str | None = None
    max_running: PositiveInt | None = None
    context_tokens: PositiveInt | None = None
    tensor_parallel: PositiveInt | None = None
    pipeline_parallel: PositiveInt | None = None
    data_parallel: PositiveInt | None = None
    block_tokens: PositiveInt | None = None
    graphs: bool | None = None
    attention_backend: str | None = None
    server_seed: NonNegativeInt | None = None


Flag = bool | int | float | str | tuple[int | float | str, ...] | dict[str, Any]
"""A raw flag: true is a bare flag, a list is several words, a table is sent as JSON."""


class CellKeys(Settings):
    """What `[common]`, an engine's section, an axis or an included cell may say of a cell.

    Attributes:
        model: hub name, `name@revision`, or a path of this machine.
        image: image reference.
        gpus: a number of GPUs or their UUIDs.
        cpus: cores of the server, as `0-3`.
        flags: raw flags of the engine, without dashes.
        env: plain environment; never for secrets.
        secrets: names of variables handed over from the runner's own environment.
        mounts: container path -> host path, read-only.
        memory_limit_bytes: limit of the container's host memory.
        compile: whether compiled kernels are kept between its boots; as `[cache]` by default.
        shm_bytes: size of /dev/shm; the host's IPC namespace is shared when it is not given and
            GPUs are used.
        expect: the outcome that is this cell's answer.
    """

    model: str | None = None
    image: str | None = None
    gpus: NonNegativeInt | tuple[str, ...] | None = None
    cpus: str | None = None
    flags: dict[str, Flag] = Field(default_factory=dict)
    env: dict[str, str] = Field(default_factory=dict)
    secrets: tuple[str, ...] = ()
    mounts: dict[str, str] = Field(default_factory=dict)
    memory_limit_bytes: PositiveInt | None = None
    shm_bytes: PositiveInt | None = None
    compile: Compile | None = None
    expect: Expect | None = None


class EngineKeys(CellKeys):
    """`[engines.NAME]`: how one arm of the comparison is started.

    Attributes:
        engine: which engine it is; the section's name unless given, so that one file may hold two
            releases of the same engine.
        launcher: `docker`, or `process` for a local command, or `attach` for a URL that serves.
        program: for `process`, what precedes the flags; the engine's own command by default.
        url: for `attach`.
        version: the release, where the image reference does not tell it.
        simulate: start the simulated engine in its place, with these properties.
    """

    engine: str | None = None
    launcher: Launch | None = None
    program: tuple[str, ...] = ()
    url: str | None = None
    version: str | None = None
    simulate: dict[str, Any] | None = None


class Requests(Keys):
    """How many requests a load holds: so many for each stream, and no fewer than a floor."""

    per_stream: PositiveInt
    at_least: PositiveInt = 1


class PerStream(Keys):
    """How many warm-up requests each stream sends before the window."""

    per_stream: NonNegativeInt


class SamplingKeys(Keys):
    """Sampling of every request; greedy unless said otherwise."""

    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    top_k: int = -1
    repetition_penalty: PositiveFloat = 1.0
    seed: int | None = None

    def sampling(self) -> Sampling:
        """Return it in the engines' words."""
        return Sampling(**self.model_dump())


Levels = PositiveInt | tuple[PositiveInt, ...]
Speeds = PositiveFloat | tuple[PositiveFloat, ...]
Rate = PositiveFloat | Literal["inf"]
Rates = Rate | tuple[Rate, ...]


class Ramp(Keys):
    """`ramp`: how the rate of an open loop comes to its level.

    Attributes:
        from_per_s: arrivals per second when the window opens.
        over_s: seconds until the level is reached, where it stays.
        shape: a straight line, an equal factor every second, or plateaus.
        steps: how many plateaus of `shape = "steps"` come before the level.
    """

    from_per_s: NonNegativeFloat
    over_s: PositiveFloat
    shape: Literal["linear", "exponential", "steps"] = "linear"
    steps: PositiveInt = 4


class LoadKeys(BaseModel):
    """`[[loads]]`: one workload at one or more levels. The workload's own keys stand beside these.

    Attributes:
        workload: a file of `runner.workloads`.
        name: tells two loads of one workload apart.
        concurrency: requests held in flight (closed loop), one load for each level.
        rate_per_s: arrivals per second (open loop), one load for each level; "inf": all at once.
        speed: the workload's own times, each so many times as fast, one load for each.
        burst: requests at one moment, one load for each number.
        search: looks for the highest level that keeps an SLO, in every boot anew.
        arrivals: law of the arrivals in open loop.
        burstiness: shape of the gamma law; 1 is Poisson, less is burstier.
        ramp: how the rate comes to its level; at once by default.
        max_in_flight: in open loop, requests over this many wait in the client.
        requests: a number, or so many for each stream.
        duration_s: ends the window by time instead.
        warmup: requests of each stream before the window, or a plain number.
        repeats: how often the load is repeated in one boot.
        flush: empty the prefix cache before the load.
        sampling: spelled out in every request.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    workload: str
    name: str | None = None
    concurrency: Levels | None = None
    rate_per_s: Rates | None = None
    speed: Speeds | None = None
    burst: Levels | None = None
    search: Search | None = None
    arrivals: Literal["poisson", "constant", "gamma"] = "poisson"
    burstiness: PositiveFloat = 1.0
    ramp: Ramp | None = None
    max_in_flight: PositiveInt | None = None
    requests: PositiveInt | Requests | None = None
    duration_s: PositiveFloat | None = None
    warmup: NonNegativeInt | PerStream = PerStream(per_stream=1)
    repeats: PositiveInt = 1
    flush: bool = True
    sampling: SamplingKeys = SamplingKeys()

    @model_validator(mode="after")
    def _one_arrival_and_one_end(self) -> Self:
        levels = (self.concurrency, self.rate_per_s, self.speed, self.burst)
        if [*levels, self.search].count(None) != len(levels):
            raise ValueError("give exactly one of concurrency, rate_per_s, speed, burst and search")
        ends = [self.requests, self.duration_s].count(None)
        if ends == 0 or (ends == 2 and self.search is None and self.speed is None):
            raise ValueError("give exactly one of requests and duration_s")
        if () in levels:
            raise ValueError("the list of levels is empty; give at least one level")
        return self


class Timeouts(Keys):
    """The longest a phase may take, in seconds; a phase that takes longer ends its boot.

    Attributes:
        warmup_s: until the first request of a load's window is sent.
        request_s: one request; it has failed then, and its load goes on.
        silence_s: without a byte on any connection of a load while requests are in flight.
    """

    pull_s: PositiveFloat = 3600
    fetch_s: PositiveFloat = 14400
    create_s: PositiveFloat = 120
    start_s: PositiveFloat = 120
    ready_s: PositiveFloat = 1200
    warmup_s: PositiveFloat = 600
    load_s: PositiveFloat = 3600
    request_s: PositiveFloat = 300
    silence_s: PositiveFloat = 60
    stop_s: PositiveFloat = 30
    release_s: PositiveFloat = 120


class Cache(Keys):
    """Where models and compiled kernels are kept between boots.

    Attributes:
        models: the Hugging Face home; `$HF_HOME` or `~/.cache/huggingface` by default.
        writable: servers may write into it; they read it only, unless an image cannot do without.
        compile: `per_cell` keeps one folder for each cell and build, filled by a discarded priming
            boot; `none` mounts nothing, so every boot compiles anew.
        folder: where the compile folders are.
    """

    models: str | None = None
    writable: bool = False
    compile: Compile = "per_cell"
    folder: str = "~/.cache/runner/compile"


class Client(Keys):
    """The measuring client: its cores (as `1` or `2-3`), and its worker processes."""

    cpus: str | None = None
    workers: PositiveInt = 1


class Limits(Keys):
    """When a load is void: share of failed requests above which its figures are not shown."""

    failed_requests_ratio: float = Field(default=0.01, ge=0, le=1)


Metric = Literal[
    "output_tokens_per_s",
    "requests_per_s",
    "ttft_p50_s",
    "ttft_p99_s",
    "itl_p50_s",
    "itl_p99_s",
    "tpot_p50_s",
    "e2e_p50_s",
    "e2e_p99_s",
]


class Compare(Keys):
    """`[compare]`: what is judged, declared before anyone looks. It changes no measurement.

    Attributes:
        metric: the primary metric, a column of `loads`; verdicts are about it alone.
        margin_ratio: differences under this share count as none.
        pairs: cells that differ in one axis (`neighbours`), each against the first cell (`first`),
            `all` pairs, or pairs of labels: the first over the second.
        loads: only these, as `random@c8`; all when there is none.
        looks: how often the results are looked at before the last boot; each look costs level.
    """

    metric: Metric = "output_tokens_per_s"
    margin_ratio: PositiveFloat = 0.03
    pairs: Literal["neighbours", "first", "all"] | tuple[tuple[str, str], ...] = "neighbours"
    loads: tuple[str, ...] = ()
    looks: int = Field(default=1, ge=1, le=3)


class SameAgain(Keys):
    """`[aa]`: the first cell again under another name, to see what this bench calls a difference.

    Attributes:
        boots: in how many blocks, from the first; at most as many as the experiment has.
    """

    boots: PositiveInt


class Matrix(BaseModel):
    """`[matrix]`: an axis is a key of a cell (or `engine`) with its list of values."""

    model_config = ConfigDict(extra="allow", frozen=True)

    zip: tuple[dict[str, tuple[Any, ...]], ...] = ()

    @property
    def axes(self) -> dict[str, Any]:
        """Return the axes of the product, as written."""
        return dict(self.model_extra or {})


class Experiment(Keys):
    """One question and everything needed to answer it."""

    question: str
    boots: PositiveInt
    seed: int = 1
    gpu_exclusive: bool = False
    skip_dominated: bool = False
    pull: Literal["missing", "always", "never"] = "missing"
    common: CellKeys = CellKeys()
    engines: dict[str, EngineKeys] = Field(min_length=1)
    matrix: Matrix = Matrix()
    include: tuple[dict[str, Any], ...] = ()
    exclude: tuple[dict[str, Any], ...] = ()
    loads: tuple[LoadKeys, ...] = Field(min_length=1)
    stages: tuple[Stage, ...] = ()
    timeouts: Timeouts = Timeouts()
    cache: Cache = Cache()
    client: Client = Client()
    limits: Limits = Limits()
    compare: Compare | None = None
    capacity: Capacity | None = None
    aa: SameAgain | None = None
    rehearse: dict[str, Any] = Field(default_factory=dict)

    _path: Path = Path("experiment.toml")
    _rehearsal: bool = False

    @property
    def path(self) -> Path:
        """Return the file it was read from."""
        return self._path

    @property
    def name(self) -> str:
        """Return its name: the file's name without the ending."""
        return self._path.stem

    @property
    def rehearsal(self) -> bool:
        """Tell whether its `[rehearse]` table was laid over it."""
        return self._rehearsal
