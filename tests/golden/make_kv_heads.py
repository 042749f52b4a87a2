#!/usr/bin/env python3
"""Makes the golden logits of SmolLM2-135M-Instruct with other KV heads than its own.

transformers, FP32, on weights that the gguf package dequantized (make_logits.py); the rows of k_proj
and v_proj are repeated or averaged here with numpy, in the order of the heads.

    python tests/golden/make_kv_heads.py MODEL.gguf tests/golden/data

needs what make_logits.py needs. It writes smollm2_135m_kv_heads.json: for each number of KV heads the
token ids, and per position the 8 best ids with log-probabilities.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from gguf import GGUFReader
from transformers import LlamaForCausalLM

from make_logits import TEXTS, load_model, load_tokenizer

KV_HEADS = [1, 9]
BEST = 8


def regroup(weight, own, wanted):
    heads = weight.reshape(own, -1, weight.shape[-1])
    if wanted > own:
        heads = np.repeat(heads, wanted // own, axis=0)
    else:
        heads = heads.reshape(wanted, own // wanted, *heads.shape[1:]).mean(axis=1)
    return heads.reshape(-1, weight.shape[-1]).astype(np.float32)


def with_kv_heads(model, wanted):
    config = type(model.config).from_dict(model.config.to_dict())
    own = config.num_key_value_heads
    config.num_key_value_heads = wanted
    config._attn_implementation = "eager"
    state = dict(model.state_dict())
    for name in state:
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            state[name] = torch.from_numpy(regroup(state[name].numpy(), own, wanted))
    other = LlamaForCausalLM(config).to(torch.float32).eval()
    other.load_state_dict(state)
    return other


def main(model_path, folder):
    reader = GGUFReader(model_path)
    tokenizer, _ = load_tokenizer(reader)
    model = load_model(reader)
    _, text, _ = TEXTS[0]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    runs = []
    for kv_heads in KV_HEADS:
        with torch.no_grad():
            logits = with_kv_heads(model, kv_heads)(torch.tensor([ids])).logits[0].double()
        best = torch.topk(torch.log_softmax(logits, dim=-1), BEST, dim=-1)
        runs.append({
            "kv_heads": kv_heads, "best_ids": best.indices.tolist(),
            "best_logprobs": [[round(float(v), 6) for v in row] for row in best.values],
        })
        print(f"{kv_heads} KV heads: {len(ids)} tokens, best "
              f"{tokenizer.decode([int(best.indices[-1][0])])!r}")
    lines = ",\n".join(json.dumps(run, separators=(",", ":")) for run in runs)
    path = pathlib.Path(folder) / "smollm2_135m_kv_heads.json"
    path.write_text(f'{{"model":"SmolLM2-135M-Instruct.Q4_1.gguf","ids":{json.dumps(ids)},"runs":[\n'
                    f"{lines}\n]}}\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
