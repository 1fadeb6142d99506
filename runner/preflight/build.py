"""What each cell became before anything is started: image digest, model build, GPUs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runner.boots.gpu import Gpus
from runner.errors import HostError
from runner.launchers import NO_PULL, Launcher, Pulling
from runner.plan.cells import Cell, HubModel
from runner.plan.identity import build_id
from runner.preflight.content import content_hash
from runner.workloads import Vocabulary

_SPECIAL_TOKENS = 256
"""Ids below this are bytes or special tokens in common tokenizers, so prompts leave them out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Build:
    """What a cell became.

    Attributes:
        build_id: hash of the rest.
        image_digest: digest or id of its image; empty without one.
        model_build: commit of a hub model, hash of a local folder; empty where unknown.
        config: the model's config.json, empty where it is not on this machine.
        vocabulary: token ids its prompts may use.
        gpus: the GPUs of this machine that it may use.
    """

    build_id: str
    image_digest: str
    model_build: str
    config: Mapping[str, Any]
    vocabulary: Vocabulary
    gpus: Gpus


def builds_of(
    cells: Iterable[Cell],
    launchers: Mapping[str, Launcher],
    models: Path,
    gpus: Gpus,
    pulling: Pulling = NO_PULL,
) -> dict[str, Build]:
    """Return what each cell became, by `cell_id`; each image and model is looked up once.

    Raises:
        HostError: an image or a local model is missing, or Docker does not answer.
    """
    digests: dict[str, str] = {}
    folders: dict[str, Path | None] = {}
    hashes: dict[str, str] = {}
    builds = {}
    for cell in cells:
        image = cell.keys.image if cell.launcher == "docker" else None
        if image and image not in digests:
            digests[image] = launchers["docker"].resolve(image, pulling).digest
        model = cell.keys.model or ""
        if model not in folders:
            folders[model] = model_folder(cell, models)
            hashes[model] = model_build(folders[model])
        builds[cell.cell_id] = _build(
            digests.get(image or "", ""), hashes[model], folders[model], gpus, cell
        )
    return builds


def make_models_folder(cells: Iterable[Cell], models: Path) -> None:
    """Make the Hugging Face home where a container is to see it: Docker's own would be root's.

    Raises:
        HostError: it cannot be made.
    """
    if not any(c.launcher == "docker" and not c.simulated and not c.is_local_model for c in cells):
        return
    try:
        models.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise HostError(
            f"the models folder {models} cannot be made: {error.strerror}. Give another one as"
            " [cache] models, or as HF_HOME"
        ) from error


def model_folder(cell: Cell, models: Path) -> Path | None:
    """Return where the model's files are on this machine, None where they are not.

    Raises:
        HostError: a local path holds no model.
    """
    model = cell.hub_model
    if model is None:
        folder = Path(cell.model).expanduser()
        if not (folder / "config.json").is_file() and not cell.simulated:
            raise HostError(f"{folder}: no config.json, so it is no model; check the path")
        return folder if folder.is_dir() else None
    return snapshot_folder(models, model)


def repository_folder(models: Path, repository: str) -> Path:
    """Return where the cache of the hub's own library keeps a repository."""
    return models / "hub" / f"models--{repository.replace('/', '--')}"


def snapshot_folder(models: Path, model: HubModel) -> Path | None:
    """Return where a revision of a hub's model is cached, None where it is not."""
    repository = repository_folder(models, model.repository)
    reference = repository / "refs" / model.revision
    known = reference.is_file()
    commit = reference.read_text(encoding="utf-8").strip() if known else model.revision
    snapshot = repository / "snapshots" / commit
    return snapshot if snapshot.is_dir() else None


def model_build(folder: Path | None) -> str:
    """Return the commit of a cached hub model, or a hash of a local folder's content."""
    if folder is None:
        return ""
    if folder.parent.name == "snapshots":
        return folder.name
    return content_hash(folder)


def vocabulary_of(config: Mapping[str, Any]) -> Vocabulary:
    """Return the token ids prompts may use: ordinary ones of the model's own vocabulary.

    Special tokens stand at either end of a vocabulary, so a tenth is left out at the top. Without
    a config, ids that every large vocabulary has.
    """
    size = config.get("vocab_size") or config.get("text_config", {}).get("vocab_size")
    if not isinstance(size, int) or size < 2 * _SPECIAL_TOKENS:
        return Vocabulary()
    return Vocabulary(low=_SPECIAL_TOKENS, high=size - size // 10)


def _build(image: str, model: str, folder: Path | None, gpus: Gpus, cell: Cell) -> Build:
    used = assigned(cell, gpus)
    config = _config(folder)
    return Build(
        build_id=build_id(image, model, used.names, used.driver),
        image_digest=image,
        model_build=model,
        config=config,
        vocabulary=vocabulary_of(config),
        gpus=used,
    )


def assigned(cell: Cell, gpus: Gpus) -> Gpus:
    """Return the GPUs a cell gets: those it names, else the first of this machine, by UUID.

    Raises:
        HostError: it asks for GPUs that this machine does not have.
    """
    if not cell.gpus or not gpus.uuids:
        return Gpus(driver=gpus.driver if cell.gpus else "")
    asked = cell.keys.gpus if isinstance(cell.keys.gpus, tuple) else gpus.uuids[: cell.gpus]
    known = dict(zip(gpus.uuids, gpus.names, strict=True))
    missing = [uuid for uuid in asked if uuid not in known]
    if missing or len(asked) < cell.gpus:
        raise HostError(
            f"{cell.label} asks for {cell.gpus} GPUs{': no ' if missing else ''}"
            f"{', '.join(missing)}; this machine has {', '.join(gpus.uuids)}"
        )
    return Gpus(names=tuple(known[uuid] for uuid in asked), uuids=asked, driver=gpus.driver)


def _config(folder: Path | None) -> Mapping[str, Any]:
    try:
        text = (folder / "config.json").read_text(encoding="utf-8") if folder else "{}"
        config: Mapping[str, Any] = json.loads(text)
    except (OSError, ValueError):
        return {}
    return config
