#!/usr/bin/env python3
"""What rounding keys and values to INT8 costs, apart, as they are and after a Hadamard transform.

Rounds inside the attention of transformers, in FP32 otherwise, and prints the KL divergence against
no rounding. An independent look at the format of the INT8 cache (engine/quant/README.md).

  measure_kv_rounding.py MODEL.gguf TEXT [--tokens 3072]

Needs torch, transformers and gguf.
"""
import argparse
import pathlib

import torch
import transformers.models.llama.modeling_llama as llama
from transformers import AutoModelForCausalLM, AutoTokenizer

WINDOW = 512  # tokens; the second half is scored


def rounded(x):
    """INT8 with a scale for each head."""
    scale = x.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    return torch.round(x / scale) * scale


def transformed(x):
    """The same of the transformed head, transformed back."""
    matrix = torch.tensor([[1.0]])
    while matrix.shape[0] < x.shape[-1]:
        matrix = torch.kron(matrix, torch.tensor([[1.0, 1.0], [1.0, -1.0]]) / 2**0.5)
    return rounded(x @ matrix) @ matrix


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--tokens", type=int, default=3072)
    args = parser.parse_args()
    source = {"pretrained_model_name_or_path": args.model.parent, "gguf_file": args.model.name}
    model = AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    ids = tokenizer(args.text.read_text(), add_special_tokens=False).input_ids[:args.tokens]

    rounding = {}
    attend = llama.eager_attention_forward

    def attend_rounded(module, query, key, value, *rest, **named):
        return attend(module, query, rounding["keys"](key), rounding["values"](value), *rest,
                      **named)

    llama.eager_attention_forward = attend_rounded
    model.config._attn_implementation = "eager"

    def log_probabilities():
        with torch.no_grad():
            return torch.cat([
                model(torch.tensor([ids[begin:begin + WINDOW]])).logits[0, WINDOW // 2:]
                .log_softmax(-1) for begin in range(0, len(ids) - WINDOW + 1, WINDOW)])

    ways = {"exact": lambda x: x, "rounded": rounded, "transformed and rounded": transformed}
    rounding.update(keys=ways["exact"], values=ways["exact"])
    exact = log_probabilities()
    for keys, values in (("rounded", "rounded"), ("rounded", "exact"), ("exact", "rounded"),
                         ("transformed and rounded", "rounded"),
                         ("transformed and rounded", "exact"),
                         ("exact", "transformed and rounded")):
        rounding.update(keys=ways[keys], values=ways[values])
        other = log_probabilities()
        divergence = (exact.exp() * (exact - other)).sum(-1).mean().item()
        print(f"keys {keys}, values {values}: KL {divergence:.6f}", flush=True)


if __name__ == "__main__":
    main()
