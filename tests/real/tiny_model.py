"""Make a tiny Qwen3 model with random weights, in a second, with nothing but Python.

python3 tiny_model.py FOLDER

820,000 parameters in bfloat16, 2 layers, 4,096 token ids, 8,192 tokens of context, 512 bytes of
KV cache per token. It says nothing sensible, fast. The same files come out every time.
"""

from __future__ import annotations

import array
import itertools
import json
import math
import random
import string
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")

CONFIG: dict[str, Any] = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "dtype": "bfloat16",
    "torch_dtype": "bfloat16",
    "vocab_size": 4096,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "attention_bias": False,
    "bos_token_id": 0,
    "eos_token_id": 2,
}

CHAT = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def shapes(config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of every weight of a Qwen3 model, by its name in the checkpoint."""
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    layer = {
        "input_layernorm": (hidden,),
        "self_attn.q_proj": (queries, hidden),
        "self_attn.k_proj": (keys, hidden),
        "self_attn.v_proj": (keys, hidden),
        "self_attn.o_proj": (hidden, queries),
        "self_attn.q_norm": (head,),
        "self_attn.k_norm": (head,),
        "post_attention_layernorm": (hidden,),
        "mlp.gate_proj": (inner, hidden),
        "mlp.up_proj": (inner, hidden),
        "mlp.down_proj": (hidden, inner),
    }
    found = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for number, (name, shape) in itertools.product(
        range(config["num_hidden_layers"]), layer.items()
    ):
        found[f"model.layers.{number}.{name}.weight"] = shape
    return found | {"model.norm.weight": (hidden,)}


def checkpoint(found: Mapping[str, tuple[int, ...]], rng: random.Random) -> bytes:
    """Return weights in the safetensors format: header length, JSON header, the numbers.

    Matrices are normal with deviation 0.02, norms are 1. A bfloat16 is the upper half of a float.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, shape in found.items():
        numbers = array.array("f", _values(shape, rng)).tobytes()
        halves = bytearray(len(numbers) // 2)
        halves[0::2], halves[1::2] = numbers[2::4], numbers[3::4]
        header[name] = {
            "dtype": "BF16",
            "shape": list(shape),
            "data_offsets": [len(body), len(body) + len(halves)],
        }
        body += halves
    words = json.dumps(header).encode()
    words += b" " * (-len(words) % 8)
    return len(words).to_bytes(8, "little") + words + bytes(body)


def _values(shape: tuple[int, ...], rng: random.Random) -> Iterator[float]:
    if len(shape) == 1:
        return itertools.repeat(1.0, shape[0])
    return (rng.gauss(0.0, 0.02) for _ in range(math.prod(shape)))


def tokenizer(size: int) -> dict[str, Any]:
    """Return a byte-level BPE of `size` ids: special ones, all bytes, pairs of letters."""
    alphabet = list(_letters_of_bytes())
    signs = string.ascii_letters + string.digits
    pairs = list(itertools.product(signs, signs))[: size - len(SPECIAL) - len(alphabet)]
    words = [*SPECIAL, *alphabet, *map("".join, pairs)]
    bytes_ = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [_special(number, word) for number, word in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": {**bytes_, "use_regex": True},
        "post_processor": None,
        "decoder": {**bytes_, "use_regex": True},
        "model": {
            "type": "BPE",
            "vocab": {word: number for number, word in enumerate(words)},
            "merges": list(pairs),
        },
    }


def _special(number: int, word: str) -> dict[str, Any]:
    no = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    return {"id": number, "content": word, "special": True, **no}


def _letters_of_bytes() -> Iterator[str]:
    """Yield the letter that byte-level BPE writes for each byte: itself where it can be seen."""
    seen = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = itertools.count(256)
    return (chr(byte if byte in seen else next(hidden)) for byte in range(256))


def main(folder: Path) -> None:
    """Write the model's files into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    words = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "eos_token": SPECIAL[2],
        "pad_token": SPECIAL[0],
        "chat_template": CHAT,
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer(CONFIG["vocab_size"])))
    (folder / "tokenizer_config.json").write_text(json.dumps(words, indent=2))
    (folder / "model.safetensors").write_bytes(checkpoint(shapes(CONFIG), random.Random(0)))
    # a folder with this file is complete, so it comes last
    (folder / "config.json").write_text(json.dumps(CONFIG, indent=2))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
