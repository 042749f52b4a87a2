#!/usr/bin/env python3
"""Bytes and operations of each CUDA kernel, and the time that follows, on paper.

  paper_speed.py            writes paper_speed.md beside this file
  paper_speed.py --check    fails if paper_speed.md is not what it would write

The formulas are those of the kernels' header comments; the launches are those of the drawing in
README.md. Nothing here was measured.
"""
import pathlib
import sys

MODELS = {  # layers, dim, heads, KV heads, head size, FFN, vocabulary
    "0.5B": dict(like="Qwen2.5-0.5B", layers=24, dim=896, heads=14, kv=2, hd=64, ffn=4864,
                 vocab=151936),
    "1B": dict(like="Llama-3.2-1B", layers=16, dim=2048, heads=32, kv=8, hd=64, ffn=8192,
               vocab=128256),
    "8B": dict(like="Llama-3.1-8B", layers=32, dim=4096, heads=32, kv=8, hd=128, ffn=14336,
               vocab=128256),
}
# bandwidth: what reads reach; fma: FP32 lanes · clock; fp16, int8: products of large matrices
DEVICES = {
    "RTX 4090": dict(sms=128, datasheet=1008e9, bandwidth=955e9, fma=128 * 128 * 2.52e9,
                     fp16=136e12, int8=450e12, l2=4e12),
    "H200": dict(sms=132, datasheet=4800e9, bandwidth=4150e9, fma=132 * 128 * 1.75e9,
                 fp16=790e12, int8=1300e12, l2=6e12),
}
BOUNDARY = 1.5e-6    # seconds from a kernel to the next inside a graph
HOST_LAUNCH = 3.0e-6  # seconds a launch without one
GROUP = 32           # INT8 weights: one FP16 scale for so many
TILE_EFFICIENCY = 0.5  # of the FP32 peak that the tiled attention kernel reaches: a guess
WEIGHTS = {"FP16": 2.0, "INT8": 1.0 + 2.0 / GROUP}  # bytes a weight


def kv_bytes(m, kind):
    """K and V of one position of one layer."""
    return 2 * m["kv"] * (m["hd"] * 2 if kind == "FP16" else m["hd"] + 4)


def splits(m, device, length):
    """decodeSplits() of attention.cu for one row."""
    return max(1, min(3 * device["sms"] // m["kv"], -(-length // 64)))


def decode_kernels(m, weights, kv, length, device):
    """(name, launches, bytes, FP32 lane operations) of one token at a context of `length`."""
    n, d, hd, ffn = m["layers"], m["dim"], m["hd"], m["ffn"]
    q_dim, kv_dim = m["heads"] * hd, m["kv"] * hd
    qkv = q_dim + 2 * kv_dim
    w = WEIGHTS[weights]
    per_weight = 3.1 if weights == "FP16" else 3.6  # instructions, gemv.cuh
    group = m["heads"] // m["kv"]
    s = splits(m, device, length)
    partial = 0 if s == 1 else 4 * m["heads"] * s * (hd + 2)
    elements = 2 * length * kv_dim
    # A conversion (FP16) or two steps (INT8) an element of K or V, a multiply-add for each head.
    attention_ops = elements * (group + (1 if kv == "FP16" else 2))

    def product(outputs, inputs):
        return outputs * inputs * w + 2 * inputs + 4 * outputs

    rows = [
        ("embed", 1, d * w + 4 * d, d),
        ("ropeAngles", 1, 8 * hd, hd),
        ("rmsNorm, twice", 2 * n, 2 * n * (4 * d + 4 * d + 2 * d), 2 * n * 4 * d),
        ("linear QKV", n, n * product(qkv, d), n * qkv * d * per_weight),
        ("ropeAppend", n, n * (8 * qkv + kv_bytes(m, kv)), n * 4 * qkv),
        ("decodeAttention", n, n * (length * kv_bytes(m, kv) + 4 * q_dim + partial),
         n * attention_ops),
    ]
    if s > 1:
        rows.append(("merging the splits", n, n * (partial + 2 * q_dim), n * m["heads"] * s * hd))
    rows += [
        ("linear O, added", n, n * (product(d, q_dim) + 4 * d), n * d * q_dim * per_weight),
        ("gatedLinear", n, n * product(2 * ffn, d), n * 2 * ffn * d * per_weight),
        ("linear down, added", n, n * (product(d, ffn) + 4 * d), n * d * ffn * per_weight),
        ("rmsNorm, last", 1, 10 * d, 4 * d),
        ("linear head", 1, product(m["vocab"], d), m["vocab"] * d * per_weight),
        ("bestTokens", 2, 4 * m["vocab"], 2 * m["vocab"]),
    ]
    return rows


def seconds(device, launches, size, ops):
    return launches * BOUNDARY + max(size / device["bandwidth"], ops / device["fma"])


def total(m, device, weights="FP16", kv="FP16", length=1, boundary=BOUNDARY):
    rows = decode_kernels(m, weights, kv, length, device)
    launches = sum(r[1] for r in rows)
    size = sum(r[2] for r in rows)
    work = sum(max(r[2] / device["bandwidth"], r[3] / device["fma"]) for r in rows)
    return dict(launches=launches, bytes=size, seconds=work + launches * boundary,
                share=size / device["bandwidth"] / (work + launches * boundary))


def attention_seconds(m, device, kv, length):
    """All layers' decode attention with its merging, at one row."""
    return sum(seconds(device, *r[1:]) for r in decode_kernels(m, "FP16", kv, length, device)
               if r[0] in ("decodeAttention", "merging the splits"))


def parameters(m):
    d, q, kv = m["dim"], m["heads"] * m["hd"], m["kv"] * m["hd"]
    return m["layers"] * (d * (q + 2 * kv) + q * d + 3 * d * m["ffn"])


def prefill(m, device, new, cached=0, kind="fp16"):
    """Seconds of the products and of attention for `new` tokens behind `cached` ones."""
    products = 2 * parameters(m) * new / device[kind] + 2 * m["vocab"] * m["dim"] / device["fp16"]
    read = parameters(m) * 2 / device["bandwidth"]
    pairs = new * cached + new * (new + 1) / 2
    # Tiles of 32 pairs of row and head; with fewer blocks than two a multiprocessor some idle.
    blocks = -(-new * (m["heads"] // m["kv"]) // 32) * m["kv"]
    reached = TILE_EFFICIENCY * min(1.0, blocks / (2 * device["sms"]))
    attention = m["layers"] * 4 * m["heads"] * m["hd"] * pairs / (2 * device["fma"] * reached)
    launches = m["layers"] * 9 * BOUNDARY
    return max(products, read), attention, launches


def milli(value):
    return f"{value * 1e3:.2f} ms"


def micro(value):
    return f"{value * 1e6:.1f}"


def mega(value):
    return f"{value / 1e6:.2f}" if value < 1e8 else f"{value / 1e6:.0f}"


def percent(value):
    return f"{100 * value:.0f} %"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows] + [""]


def page():
    h200, rtx = DEVICES["H200"], DEVICES["RTX 4090"]
    out = ["# Speed on paper", "",
           "Written by `paper_speed.py`; **computed, nothing measured**. A kernel's time is the",
           "larger of its bytes over the bandwidth that reads reach and its FP32 instructions (a",
           "lane each) over what the lanes issue, and 1.5 µs from one kernel to the next inside a",
           "graph.", ""]
    out += table(["assumed", *DEVICES], [
        ["datasheet bandwidth", *[f"{d['datasheet'] / 1e9:.0f} GB/s" for d in DEVICES.values()]],
        ["bandwidth that reads reach", "955 GB/s", "4150 GB/s (probes: 4000 to 4300)"],
        ["FP32 instructions", *[f"{d['fma'] / 1e12:.0f} T/s" for d in DEVICES.values()]],
        ["FP16 products (FP32 sums)", *[f"{d['fp16'] / 1e12:.0f} TFLOP/s"
                                        for d in DEVICES.values()]],
        ["INT8 products", *[f"{d['int8'] / 1e12:.0f} TOP/s" for d in DEVICES.values()]],
    ])
    out += ["The FP16 rate of the H200 is the measured one of the goals, that of the RTX 4090 what",
            "others report. The other rates follow from datasheets; the tiled attention is taken to reach",
            f"{percent(TILE_EFFICIENCY)} of the FP32 peak, a launch without a graph to cost 3 µs.",
            "",
            "INT8 weights are W8A16 in groups of 32 with an FP16 scale (1.06 bytes a weight); a",
            "position of INT8 KV has one FP32 scale for K and one for V of each head.", ""]

    for name, m in MODELS.items():
        length = 4096
        out += [f"## {name} ({m['like']}): a token of decode at 4096 positions, one row", ""]
        rows = []
        fp16 = decode_kernels(m, "FP16", "FP16", length, h200)
        int8 = decode_kernels(m, "INT8", "INT8", length, h200)
        fp16_rtx = decode_kernels(m, "FP16", "FP16", length, rtx)
        int8_rtx = decode_kernels(m, "INT8", "INT8", length, rtx)
        for a, b, c, e in zip(fp16, int8, fp16_rtx, int8_rtx):
            rows.append([a[0], a[1], mega(a[2]), mega(b[2]), mega(a[3]), mega(b[3]),
                         micro(seconds(rtx, *c[1:])), micro(seconds(rtx, *e[1:])),
                         micro(seconds(h200, *a[1:])), micro(seconds(h200, *b[1:]))])
        sums = [total(m, d, w, w, length) for d in (rtx, h200) for w in ("FP16", "INT8")]
        rows.append(["**all**", sums[0]["launches"], mega(sum(r[2] for r in fp16)),
                     mega(sum(r[2] for r in int8)), mega(sum(r[3] for r in fp16)),
                     mega(sum(r[3] for r in int8)), *[micro(s["seconds"]) for s in sums]])
        out += table(["kernel", "launches", "MB FP16", "MB INT8", "Mop FP16", "Mop INT8",
                      "4090 µs FP16", "4090 µs INT8", "H200 µs FP16", "H200 µs INT8"], rows)
        speeds = [f"{1 / s['seconds']:.0f}" for s in sums]
        out += [f"Tokens a second: RTX 4090 {speeds[0]} (FP16), {speeds[1]} (INT8); "
                f"H200 {speeds[2]} (FP16), {speeds[3]} (INT8).", ""]

    m05, m1, m8 = MODELS["0.5B"], MODELS["1B"], MODELS["8B"]

    def share(m, weights, device):
        return percent(total(m, device, weights)["share"])

    def attention_share(kv, device):
        ideal = m8["layers"] * 32768 * kv_bytes(m8, kv) / device["bandwidth"]
        return percent(ideal / attention_seconds(m8, device, kv, 32768))

    def ratio(device, length):
        return attention_seconds(m8, device, "INT8", length) / attention_seconds(
            m8, device, "FP16", length)

    def mfu(device):
        products, attention, launches = prefill(m8, device, 2048)
        return 2 * parameters(m8) * 2048 / device["fp16"] / (products + attention + launches)

    def int8_gain(device):
        """A product of 4096 x 4096 with 2048 rows, a scale a row."""
        ops = 2 * 2048 * 4096 * 4096
        extra = 2048 * 4096 * (4 + 1) / device["bandwidth"]  # quantizing the rows
        extra += 2048 * 4096 * (4 + 4) / device["l2"]        # INT32 sums written and read
        return (ops / device["fp16"]) / (ops / device["int8"] + extra + 2 * BOUNDARY)

    def graph_gain(device):
        return total(m05, device, boundary=HOST_LAUNCH)["seconds"] / total(m05, device)["seconds"]

    def ttft(device):
        return sum(prefill(m8, device, 8192 + 64)) / sum(prefill(m8, device, 64, 8192))

    blocks = {n: 16 * m["layers"] * kv_bytes(m, "FP16") for n, m in MODELS.items()}
    rows = []
    for d in (rtx, h200):
        rows.append([
            f"{share(m8, 'FP16', d)}", f"{share(m8, 'INT8', d)}",
            f"{share(m1, 'FP16', d)} / {share(m1, 'INT8', d)}", f"{share(m05, 'FP16', d)}",
            f"{attention_share('FP16', d)} / {attention_share('INT8', d)}",
            f"{100 * 8 / (16 * 2 * 2 * m8['hd']):.1f} % more bytes (addresses)",
            f"{ratio(d, 8192):.2f} (8k), {ratio(d, 32768):.2f} (32k)", percent(mfu(d)),
            f"{int8_gain(d):.2f}x", f"{graph_gain(d):.2f}x",
            "one copy of " + ", ".join(f"{b / 1e6:.2f} MB ({n})" for n, b in blocks.items()),
            f"{ttft(d):.0f}x"])
    goals = [
        ("G1", "8B FP16 decode, share of the probe", ">= 75 %"),
        ("G2", "8B W8A16 decode", ">= 68 %"),
        ("G3", "1B decode, FP16 / INT8", ">= 55 / 45 %"),
        ("G4", "0.5B decode", ">= 40 %"),
        ("G5", "decode attention at 32k, FP16 / INT8 KV", ">= 80 / 70 %"),
        ("G6", "paged against contiguous", "<= 5 % slower"),
        ("G7", "INT8 KV time / FP16", "<= 0.60 at 8k"),
        ("G8", "prefill 2048, 8B FP16, share of cuBLAS", ">= 65 %"),
        ("G9", "W8A8 product with quantizing, M = 2048", ">= 1.15x H200, 1.5x GeForce"),
        ("G10", "graph on / off, 0.5B decode", ">= 1.3x"),
        ("G11", "swapping blocks", ">= 85 % of one plain copy"),
        ("G12", "8k cached + 64 new against all", ">= 30x"),
    ]
    out += ["## Beside the goals", ""]
    out += table(["goal", "what", "must (H200)", "RTX 4090, on paper", "H200, on paper"],
                 [[g, what, must, rows[0][i], rows[1][i]]
                  for i, (g, what, must) in enumerate(goals)])
    products, attention, _ = prefill(m8, h200, 2048)
    small = total(m05, h200)
    boundaries = small["launches"] * BOUNDARY / small["seconds"]
    late_products, late_attention, _ = prefill(m8, h200, 64, 8192)
    out += [
        "What the paper says:", "",
        "- Prefill attention without tensor cores misses its goals on an H200. A chunk of 2048 of "
        "the 8B",
        f"  shape: {milli(attention)} beside {milli(products)} of products (G8). 64 rows behind "
        "8192 cached positions are",
        f"  only 64 blocks: {milli(late_attention)} beside {milli(late_products)} (G12). Tiles on "
        "tensor cores, and splits of the",
        "  history where rows are few, are what is missing.",
        "- INT8 KV on an H200 is near its limit of instructions (two to widen an element, one a "
        "query head);",
        "  groups of 8 heads are beyond it. Half-precision pairs or tensor cores are the way.",
        f"- Small models are launches: at 0.5B {percent(boundaries)} of a token's time on an H200 is "
        "boundaries.", ""]
    return "\n".join(out)


def main():
    target = pathlib.Path(__file__).with_name("paper_speed.md")
    text = page()
    if "--check" in sys.argv:
        if target.read_text(encoding="utf-8") != text:
            sys.exit("kernels/cuda/paper_speed.md is not what paper_speed.py writes: run it")
        return
    target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
