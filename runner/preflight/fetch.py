"""Models of the hub, fetched once each before any boot, into the cache that boots then only read.

The name and revision that a file gives become a commit; its files are downloaded, and the commit
is noted in the cache under the revision's name, as the hub's own library does.
"""

from __future__ import annotations

import errno
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Final, TypeVar

import tenacity
from huggingface_hub import HfApi, errors
from huggingface_hub.utils import disable_progress_bars

from runner.errors import HostError
from runner.plan.cells import Cell, HubModel
from runner.preflight.build import repository_folder, snapshot_folder
from runner.stored.parts import write_text

T = TypeVar("T")
Tell = Callable[[str], None]

HUB: Final = "https://huggingface.co"
TRIES: Final = 5
SPARE_BYTES: Final = 1 << 30
"""Left free beside a model, for what everything else on the disk writes meanwhile."""
TOLD_S: Final = 10.0
_FAILED: Final = (errors.HTTPError, OSError)
"""What the hub's library raises when network, hub or disk fail it."""

OTHER_FORMATS: Final = (
    "original/*",
    *(f"*.{end}" for end in ("bin", "gguf", "h5", "msgpack", "onnx", "ot", "pt", "pth", "tflite")),
)
"""The same weights once more, where a repository holds them as safetensors."""


@dataclass(frozen=True, kw_only=True)
class Hub:
    """The hub, and the cache of this machine.

    Attributes:
        models: the Hugging Face home.
        environment: variables: HF_ENDPOINT, HF_HUB_OFFLINE, HF_TOKEN.
        limit_s: longest time for one model; no try begins after it.
        tell: says what happens.
        pause_s: first pause before another try; later ones are longer.
    """

    models: Path
    environment: Mapping[str, str]
    limit_s: float
    tell: Tell
    pause_s: float = 1.0

    @property
    def endpoint(self) -> str:
        """Return the hub's address."""
        return (self.environment.get("HF_ENDPOINT") or HUB).rstrip("/")

    def fetch(self, model: HubModel) -> str:
        """Bring a model into the cache; return its commit.

        Raises:
            HostError: it is gated or not there, the disk is too full, or the hub does not answer
                and the cache does not hold it.
        """
        cached = snapshot_folder(self.models, model)
        known = cached.name if cached else None
        if self.environment.get("HF_HUB_OFFLINE", "0") not in {"", "0"}:
            if known is None:
                raise HostError(f"{model.repository} is not in {self.models}; unset HF_HUB_OFFLINE")
            return known
        try:
            return self._downloaded(model)
        except errors.HFValidationError as error:
            raise HostError(f"{model.repository} is no name of a model: {error}") from error
        except _FAILED as error:
            refused = self._refused(model, error)
            if refused or known is None:
                raise HostError(refused or self._unreachable(model, error)) from error
            self.tell(f"{model.repository}: the hub does not answer; commit {known[:12]} is cached")
            return known

    def _refused(self, model: HubModel, error: Exception) -> str | None:
        """Return what to say where the hub answered that this cannot be had, None otherwise."""
        page = f"{self.endpoint}/{model.repository}"
        match error:
            case errors.GatedRepoError():
                return (
                    f"{model.repository} is gated: accept its terms at {page}, and export HF_TOKEN"
                    " with a token of that account"
                )
            case errors.RevisionNotFoundError():
                return f"{model.repository} has no revision {model.revision}; see {page}/commits"
            case errors.RepositoryNotFoundError():
                return (
                    f"there is no model {model.repository} at {self.endpoint}, or it is private:"
                    " check its name, or export HF_TOKEN with a token that may read it"
                )
        return None

    def _downloaded(self, model: HubModel) -> str:
        api = HfApi(endpoint=self.endpoint, token=self.environment.get("HF_TOKEN"))
        name, folder = model.repository, repository_folder(self.models, model.repository)
        info = self._tried(
            lambda: api.model_info(name, revision=model.revision, files_metadata=True)
        )
        commit, files = str(info.sha), _files(info)
        snapshot = folder / "snapshots" / commit
        missing_bytes = sum(size for file, size in files.items() if not (snapshot / file).exists())
        self._check_room(model, missing_bytes)
        disable_progress_bars()
        with _progress(folder / "blobs", name, missing_bytes, self.tell):
            self._tried(
                lambda: api.snapshot_download(
                    name,
                    revision=commit,
                    cache_dir=self.models / "hub",
                    allow_patterns=list(files),
                )
            )
        if model.revision != commit:
            write_text(folder / "refs" / model.revision, commit)
        return commit

    def _check_room(self, model: HubModel, missing_bytes: int) -> None:
        self.models.mkdir(parents=True, exist_ok=True)
        free_bytes = shutil.disk_usage(self.models).free
        if missing_bytes and missing_bytes + SPARE_BYTES > free_bytes:
            raise HostError(
                f"{model.repository}: {_gib(missing_bytes)} are still to be fetched and"
                f" {self.models} has {_gib(free_bytes)} free; make room, or write another folder in"
                " [cache] models"
            )

    def _tried(self, call: Callable[[], T]) -> T:
        """Return `call()`, tried again while the hub or the network fails in a way that passes."""
        again = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_passes),
            stop=tenacity.stop_after_attempt(TRIES) | tenacity.stop_after_delay(self.limit_s),
            wait=tenacity.wait_exponential(multiplier=self.pause_s, max=30),
            before_sleep=lambda state: self.tell(f"the hub failed ({_said(state)}); trying again"),
            reraise=True,
        )
        return again(call)

    def _unreachable(self, model: HubModel, error: Exception) -> str:
        return (
            f"{model.repository} could not be fetched from {self.endpoint} ({_short(error)}) and is"
            f" not in {self.models}; check the network, or set HF_ENDPOINT to a mirror"
        )


def fetch_all(cells: Iterable[Cell], hub: Hub) -> dict[HubModel, str]:
    """Fetch every model that containers of real engines need, each once; return their commits.

    Raises:
        HostError: one cannot be had.
    """
    needed = {cell.hub_model for cell in cells if cell.fetches_model and cell.hub_model}
    return {model: hub.fetch(model) for model in sorted(needed)}


def _passes(error: BaseException) -> bool:
    """Whether an error may be gone at the next try: the network's, or the hub's own (5xx, 429)."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    if isinstance(status, int):
        return status >= 500 or status in {408, 429}
    lasts = getattr(error, "errno", None) in {errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS}
    return isinstance(error, _FAILED) and not lasts


def _files(info: Any) -> dict[str, int]:
    """Return the size of each file of a repository that is fetched."""
    sizes = {str(one.rfilename): int(one.size or 0) for one in info.siblings}
    twice = OTHER_FORMATS if any(name.endswith(".safetensors") for name in sizes) else ()
    return {
        name: size
        for name, size in sizes.items()
        if not any(fnmatch(name, pattern) for pattern in twice)
    }


@contextmanager
def _progress(blobs: Path, name: str, missing_bytes: int, tell: Tell) -> Iterator[None]:
    """Tell every ten seconds how far the cache has grown."""
    before_bytes, ended = _size_bytes(blobs), threading.Event()

    def watch() -> None:
        while not ended.wait(TOLD_S):
            got = _size_bytes(blobs) - before_bytes
            tell(f"fetches {name}: {_gib(got)} of {_gib(missing_bytes)}")

    if missing_bytes:
        tell(f"fetches {name}: {_gib(missing_bytes)}")
    thread = threading.Thread(target=watch, name="fetch", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _size_bytes(folder: Path) -> int:
    """Return what the files of a folder hold by now; those that vanish meanwhile hold nothing."""
    total = 0
    for path in folder.glob("*") if folder.is_dir() else ():
        try:
            total += path.stat().st_size
        except OSError:
            continue
    return total


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / 2**30:.2f} GiB"


def _said(state: tenacity.RetryCallState) -> str:
    error = state.outcome.exception() if state.outcome else None
    return _short(error) if error else "unknown"


def _short(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
