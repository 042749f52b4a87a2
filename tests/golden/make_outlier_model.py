#!/usr/bin/env python3
"""Writes a model with outlier columns built in, its function unchanged in FP32.

    python tests/golden/make_outlier_model.py MODEL.gguf OUT.gguf [--layers 3,8,13,18,23,28] [--columns 18]
                                              [--strength 2048]

needs numpy and gguf. In each of the layers, `columns` elements of both norms' weights are multiplied by
`strength` and the columns of the matrices that read them divided by it; as many rows of W_up are
multiplied and the columns of W_down divided. The strength is a power of two, so nothing is rounded. The
changed matrices are written in FP32, everything else as it is.
"""
import argparse

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, dequantize


def chosen(width, columns):
    return [(2 * i + 1) * width // (2 * columns) for i in range(columns)]


def changed(name, values, layers, columns, strength):
    """The new values of a tensor, or None where it stays as it is."""
    parts = name.split(".")
    if parts[0] != "blk" or int(parts[1]) not in layers:
        return None
    kind = parts[2]
    if kind not in ("attn_norm", "ffn_norm", "attn_q", "attn_k", "attn_v", "ffn_gate", "ffn_up",
                    "ffn_down") or parts[3] != "weight":
        return None
    values = values().astype(np.float32).copy()
    at = chosen(values.shape[-1], columns)
    if kind in ("attn_norm", "ffn_norm"):
        values[at] *= strength
    else:
        values[:, at] /= strength
    if kind == "ffn_up":
        values[chosen(values.shape[0], columns), :] *= strength
    return values


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("out")
    parser.add_argument("--layers", default="3,8,13,18,23,28")
    parser.add_argument("--columns", type=int, default=18)
    parser.add_argument("--strength", type=float, default=2048)
    options = parser.parse_args()
    layers = {int(layer) for layer in options.layers.split(",")}

    reader = GGUFReader(options.model)
    writer = GGUFWriter(options.out, reader.get_field("general.architecture").contents())
    for field in reader.fields.values():
        if field.name == "general.architecture" or field.name.startswith("GGUF."):
            continue
        kind = field.types[0]
        sub = field.types[-1] if kind == GGUFValueType.ARRAY else None
        writer.add_key_value(field.name, field.contents(), kind, sub_type=sub)
    for tensor in reader.tensors:
        values = changed(tensor.name, lambda: dequantize(tensor.data, tensor.tensor_type), layers,
                         options.columns, options.strength)
        if values is None:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
        else:
            writer.add_tensor(tensor.name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main()
