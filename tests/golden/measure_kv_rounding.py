#!/usr/bin/env python3
"""What rounding keys and values to INT8 costs, apart and in several shapes of scales.

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


def rounded(x, group):
    """INT8 with a scale for each `group` neighbours of a head."""
    parts = x.reshape(*x.shape[:-1], -1, group)
    scale = parts.abs().amax(-1, keepdim=True).clamp(min=1e-12) / 127
    return (torch.round(parts / scale) * scale).reshape(x.shape)


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

    groups = {"keys": None, "values": None}
    attend = llama.eager_attention_forward

    def attend_rounded(module, query, key, value, *rest, **named):
        if groups["keys"]:
            key = rounded(key, groups["keys"])
        if groups["values"]:
            value = rounded(value, groups["values"])
        return attend(module, query, key, value, *rest, **named)

    llama.eager_attention_forward = attend_rounded
    model.config._attn_implementation = "eager"

    def log_probabilities():
        with torch.no_grad():
            return torch.cat([
                model(torch.tensor([ids[begin:begin + WINDOW]])).logits[0, WINDOW // 2:]
                .log_softmax(-1) for begin in range(0, len(ids) - WINDOW + 1, WINDOW)])

    exact = log_probabilities()
    head = model.config.hidden_size // model.config.num_attention_heads
    for keys, values in ((head, head), (head, None), (None, head), (head // 2, head // 2),
                         (head // 2, None), (None, head // 2)):
        groups.update(keys=keys, values=values)
        other = log_probabilities()
        divergence = (exact.exp() * (exact - other)).sum(-1).mean().item()
        print(f"scale for {keys or 'no'} of keys, {values or 'no'} of values: KL {divergence:.6f}")


if __name__ == "__main__":
    main()
