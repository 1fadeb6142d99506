"""A model's folder is known by its bytes, wherever it lies and however often it is looked at."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from runner.preflight.content import content_hash


@pytest.fixture
def model(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub" / "weights").write_bytes(b"w" * 1000)
    return folder


def test_a_copy_elsewhere_is_the_same_model(model: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(model, tmp_path / "copy", copy_function=shutil.copyfile)
    assert content_hash(model, tmp_path / "a") == content_hash(copy, tmp_path / "b")


@pytest.mark.parametrize("change", ["byte", "name", "more"])
def test_another_byte_name_or_file_is_another_model(
    model: Path, tmp_path: Path, change: str
) -> None:
    before = content_hash(model, tmp_path / "known")
    weights = model / "sub" / "weights"
    match change:
        case "byte":
            weights.write_bytes(b"w" * 999 + b"v")
        case "name":
            weights.rename(model / "sub" / "other")
        case "more":
            (model / "more").touch()
    assert content_hash(model, tmp_path / "known") != before


def test_a_file_that_did_not_change_is_not_read_again(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = content_hash(model, tmp_path / "known")

    def read(*_: object) -> None:
        raise AssertionError("it was read again")

    monkeypatch.setattr(hashlib, "file_digest", read)
    assert content_hash(model, tmp_path / "known") == first


def test_what_is_remembered_may_be_broken_or_impossible_to_write(
    model: Path, tmp_path: Path
) -> None:
    first = content_hash(model, tmp_path / "known")
    [remembered] = (tmp_path / "known").iterdir()
    remembered.write_text("[half")
    assert content_hash(model, tmp_path / "known") == first
    (tmp_path / "file").touch()
    assert content_hash(model, tmp_path / "file" / "below") == first
