"""The tiny model's files, without any engine."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parent / "tiny_model.py"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    subprocess.run([sys.executable, str(SCRIPT), str(folder)], check=True, timeout=60)
    return folder


def read_json(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_every_byte_of_the_checkpoint_belongs_to_one_weight(model: Path) -> None:
    content = (model / "model.safetensors").read_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    weights = {name: entry for name, entry in header.items() if name != "__metadata__"}
    end = 0
    for entry in weights.values():
        begin, stop = entry["data_offsets"]
        assert (begin, stop - begin) == (end, 2 * math.prod(entry["shape"]))
        end = stop
    assert len(content) == 8 + size + end
    assert weights["model.embed_tokens.weight"]["shape"] == [4096, 128]


def test_a_token_takes_512_bytes_of_kv_cache(model: Path) -> None:
    config = read_json(model / "config.json")
    heads = config["num_key_value_heads"] * config["head_dim"]
    assert 2 * config["num_hidden_layers"] * heads * 2 == 512


def test_the_vocabulary_is_full_and_every_merge_makes_a_word_of_it(model: Path) -> None:
    words = read_json(model / "tokenizer.json")["model"]
    assert sorted(words["vocab"].values()) == list(range(4096))
    assert all(first + second in words["vocab"] for first, second in words["merges"])


def test_the_same_model_comes_out_every_time(model: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, str(SCRIPT), str(tmp_path)], check=True, timeout=60)
    for path in model.iterdir():
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
