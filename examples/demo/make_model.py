#!/usr/bin/env python3
"""Write a tiny Qwen3 model with random weights: a real model for a real engine, in a second and without a download.

    make_model.py FOLDER [--seed 0] [--layers 2] [--kv-heads 2]

Run it with the engine environment's Python (it needs numpy, safetensors and tokenizers). The same arguments give the
same bytes. What it says is gibberish, made so that tests can rely on it:

- one byte of text is one token, and the token's id is the byte's value, so a prompt's length in tokens is known;
- only printable ASCII is ever generated, and never the end-of-text token: `max_tokens` alone decides the length;
- its attention is sharp, so one changed byte anywhere in a prompt nearly always shows within the first sixteen tokens:
  equal output means that the KV cache arrived whole.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
PRINTABLE = range(0x20, 0x7F)
HIDDEN, HEADS, HEAD_DIM, INTERMEDIATE, MAX_POSITION = 64, 2, 64, 128, 8192
SCALE, SHARPNESS = 0.35, 3  # found by trying: a duller attention settles into loops that forget the prompt
VOCABULARY = 320  # 256 bytes and the special tokens, rounded up to a multiple of 64

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def byte_alphabet():
    """The printable character that byte-level tokenizers show for each byte, in the order of the bytes."""
    visible = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    spare = iter(range(0x100, 0x200))
    alphabet = [chr(byte) if byte in visible else chr(next(spare)) for byte in range(256)]
    assert sorted(alphabet) == sorted(pre_tokenizers.ByteLevel.alphabet())
    return alphabet


def tokenizer():
    result = Tokenizer(models.BPE(vocab={char: byte for byte, char in enumerate(byte_alphabet())}, merges=[]))
    result.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    result.decoder = decoders.ByteLevel()
    result.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    return result


def weights(seed, layers, kv_heads):
    # RandomState's stream is frozen by numpy's own promise; default_rng's is not
    random = np.random.RandomState(seed)

    def matrix(rows, columns):
        return (random.standard_normal((rows, columns)) * SCALE).astype(np.float32)

    def constant(size, value=1):
        return np.full(size, value, dtype=np.float32)

    result = {"model.embed_tokens.weight": matrix(VOCABULARY, HIDDEN), "model.norm.weight": constant(HIDDEN)}
    for index in range(layers):
        layer = {
            "self_attn.q_proj": matrix(HEADS * HEAD_DIM, HIDDEN),
            "self_attn.k_proj": matrix(kv_heads * HEAD_DIM, HIDDEN),
            "self_attn.v_proj": matrix(kv_heads * HEAD_DIM, HIDDEN),
            "self_attn.o_proj": matrix(HIDDEN, HEADS * HEAD_DIM),
            "self_attn.q_norm": constant(HEAD_DIM, SHARPNESS),
            "self_attn.k_norm": constant(HEAD_DIM),
            "mlp.gate_proj": matrix(INTERMEDIATE, HIDDEN),
            "mlp.up_proj": matrix(INTERMEDIATE, HIDDEN),
            "mlp.down_proj": matrix(HIDDEN, INTERMEDIATE),
            "input_layernorm": constant(HIDDEN),
            "post_attention_layernorm": constant(HIDDEN),
        }
        result |= {f"model.layers.{index}.{name}.weight": tensor for name, tensor in layer.items()}
    head = matrix(VOCABULARY, HIDDEN)
    head[[token for token in range(VOCABULARY) if token not in PRINTABLE]] = 0  # a zero logit never wins
    return result | {"lm_head.weight": head}


def config(layers, kv_heads, ids):
    return {
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "hidden_size": HIDDEN,
        "intermediate_size": INTERMEDIATE,
        "num_hidden_layers": layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": kv_heads,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": MAX_POSITION,
        "rms_norm_eps": 1e-06,
        "rope_theta": 10000.0,
        "rope_scaling": None,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "hidden_act": "silu",
        "initializer_range": 0.02,
        "tie_word_embeddings": False,
        "use_cache": True,
        "use_sliding_window": False,
        "sliding_window": None,
        "max_window_layers": layers,
        "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"],
        "torch_dtype": "float32",
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0, help="other weights under the same configuration")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--kv-heads", type=int, choices=(1, 2), default=2)
    options = parser.parse_args()

    def write(name, value):
        (options.folder / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

    options.folder.mkdir(parents=True, exist_ok=True)
    tokens = tokenizer()
    ids = {text: tokens.token_to_id(text) for text in SPECIAL}
    tokens.save(str(options.folder / "tokenizer.json"))
    write(
        "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_POSITION,
            "eos_token": "<|im_end|>",
            "pad_token": "<|endoftext|>",
            "bos_token": None,
            "clean_up_tokenization_spaces": False,
            "chat_template": CHAT_TEMPLATE,
        },
    )
    write("config.json", config(options.layers, options.kv_heads, ids))
    write(
        "generation_config.json",
        {"bos_token_id": ids["<|endoftext|>"], "eos_token_id": [ids["<|im_end|>"]], "do_sample": False},
    )
    save_file(
        weights(options.seed, options.layers, options.kv_heads),
        options.folder / "model.safetensors",
        metadata={"format": "pt"},
    )


if __name__ == "__main__":
    main()
