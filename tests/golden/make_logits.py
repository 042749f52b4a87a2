#!/usr/bin/env python3
"""Makes the golden logits of SmolLM2-135M-Instruct that tst_golden_logits.cpp compares with.

An implementation that shares nothing with ours: the gguf package dequantizes the file's weights to
FP32, transformers' LlamaForCausalLM runs them in FP32 on the CPU, and the tokenizers package (built
from the vocabulary and merges in the file, with SmolLM2's pre-tokenizer) makes the token ids.

    python tests/golden/make_logits.py MODEL.gguf tests/golden/data

needs torch, transformers, gguf, tokenizers, numpy. It writes

    smollm2_135m.json    texts, token ids, and per position the 8 best ids with log-probabilities and
                         log(sum(exp(logits)))
    smollm2_135m.f32     per position the 576 values that enter the output matrix (after the last
                         norm), little-endian FP32, text after text

Full logits would be 35 MB. The logits of a position are its 576 values times the output matrix,
which the test has: so the whole distribution is known, the KL divergence is exact and not a bound
from a few best tokens, and the log-probabilities in the JSON prove that the product is the same.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

# name, text, whether control tokens are recognized in it (a rendered template) or not
TEXTS = [
    ("english", "The harbour was quiet when the last ferry came in. Two men in oilskins tied it up "
     "without a word, and the captain, who hadn't slept since Tuesday, went below to finish a "
     "letter that he'd been writing to his sister for most of the winter.", False),
    ("code", "def running_mean(values, width=3):\n    \"\"\"Means of `width` neighbours.\"\"\"\n"
     "    total = sum(values[:width])\n    means = [total / width]\n"
     "    for i in range(width, len(values)):\n        total += values[i] - values[i - width]\n"
     "        means.append(total / width)\n    return means\n", False),
    ("multilingual", "今天下午我们去河边散步,看见了三只白鹭。Ça va très bien, merci ! "
     "Straße, naïve, Ελλάδα, привет 🙂", False),
    ("chat", "<|im_start|>system\nYou answer in one sentence.<|im_end|>\n<|im_start|>user\n"
     "Why does bread rise when it is baked?<|im_end|>\n<|im_start|>assistant\n"
     "Because yeast makes gas that the dough holds", True),
    ("numbers", "  1.  3,141.59   ×  2 = 6283.18\n\n\t2)  0x1F + 007 -> 38;   100% of 12\t\n"
     "| a | b |\n|---|---|\n| 10 | -2.5e-3 |\n", False),
]
BEST = 8


def field(reader, key):
    return reader.fields[key].contents()


def load_tokenizer(reader):
    pieces = field(reader, "tokenizer.ggml.tokens")
    merges = [tuple(m.split(" ", 1)) for m in field(reader, "tokenizer.ggml.merges")]
    types = field(reader, "tokenizer.ggml.token_type")
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
    ])
    with_control = Tokenizer.from_str(tokenizer.to_str())
    with_control.add_special_tokens(
        [AddedToken(p, special=True, normalized=False) for p, t in zip(pieces, types) if t == 3])
    return tokenizer, with_control


def load_model(reader):
    heads = field(reader, "llama.attention.head_count")
    kv_heads = field(reader, "llama.attention.head_count_kv")
    config = LlamaConfig(
        vocab_size=len(field(reader, "tokenizer.ggml.tokens")),
        hidden_size=field(reader, "llama.embedding_length"),
        intermediate_size=field(reader, "llama.feed_forward_length"),
        num_hidden_layers=field(reader, "llama.block_count"),
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        max_position_embeddings=field(reader, "llama.context_length"),
        rms_norm_eps=float(field(reader, "llama.attention.layer_norm_rms_epsilon")),
        rope_parameters={"rope_type": "default",
                         "rope_theta": float(field(reader, "llama.rope.freq_base"))},
        tie_word_embeddings=not any(t.name == "output.weight" for t in reader.tensors),
        attn_implementation="eager",
    )

    def halves(weight, n):
        # GGUF stores q and k so that neighbours rotate together; transformers rotates halves.
        return weight.reshape(n, -1, 2, weight.shape[-1]).swapaxes(1, 2).reshape(weight.shape)

    names = {"attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
             "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    top = {"token_embd.weight": "model.embed_tokens.weight", "output.weight": "lm_head.weight",
           "output_norm.weight": "model.norm.weight"}
    state = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        values = values.reshape([int(n) for n in reversed(tensor.shape)])
        if tensor.name in top:
            state[top[tensor.name]] = torch.from_numpy(values.copy())
            continue
        _, layer, kind, _ = tensor.name.split(".")
        if kind == "attn_q":
            values = halves(values, heads)
        if kind == "attn_k":
            values = halves(values, kv_heads)
        state[f"model.layers.{layer}.{names[kind]}.weight"] = torch.from_numpy(values.copy())
    if config.tie_word_embeddings:
        state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model = LlamaForCausalLM(config).to(torch.float32).eval()
    model.load_state_dict(state)
    return model


def main(model_path, folder):
    reader = GGUFReader(model_path)
    tokenizer, with_control = load_tokenizer(reader)
    model = load_model(reader)
    texts, hidden = [], []
    for name, text, control in TEXTS:
        ids = (with_control if control else tokenizer).encode(text, add_special_tokens=False).ids
        with torch.no_grad():
            states = model.model(torch.tensor([ids])).last_hidden_state[0]
            logits = model.lm_head(states).double()
        norm = torch.logsumexp(logits, dim=-1)
        best = torch.topk(logits - norm[:, None], BEST, dim=-1)
        hidden.append(states.numpy().astype("<f4"))
        texts.append({
            "name": name, "text": text, "control_tokens": control, "ids": ids,
            "log_norm": [round(float(v), 6) for v in norm],
            "best_ids": best.indices.tolist(),
            "best_logprobs": [[round(float(v), 6) for v in row] for row in best.values],
        })
        print(f"{name}: {len(ids)} tokens, best {tokenizer.decode([int(best.indices[-1][0])])!r}")
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(t, ensure_ascii=False, separators=(",", ":")) for t in texts)
    (folder / "smollm2_135m.json").write_text(
        f'{{"model":"SmolLM2-135M-Instruct.Q4_1.gguf","dim":{model.config.hidden_size},'
        f'"texts":[\n{lines}\n]}}\n', encoding="utf-8")
    np.concatenate(hidden).tofile(folder / "smollm2_135m.f32")


if __name__ == "__main__":
    main(*sys.argv[1:])
