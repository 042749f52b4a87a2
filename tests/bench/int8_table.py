#!/usr/bin/env python3
"""What every INT8 mode costs and gains, as two Markdown tables.

For each text, every mode against FP16 in one process (KL divergence, best token, perplexity), bytes
of weights, and decode and prefill speed as ratios to FP16 measured in turns. With --llama, KL
divergences of llama.cpp's Q8_0 and of its q8_0 KV cache against its own F16 over the same text are
the units in which the goals are given. The second table is INT8 KV at depth.

  int8_table.py --cli build/release/bin/vitrine-cli -m MODEL.gguf english=book.txt code=source.txt
"""
import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

W8A8 = "--weights int8 --activations int8"
CHANNEL = W8A8 + " --weight-scales channel"

# name, options, goal (see goals()); {profile} and {keep} are filled in for each text.
MODES = [
    ("FP16", "--weights fp16", None),
    ("W8A16, groups of 32", "--weights int8 --group-size 32", ("A1", 1.2, "weights")),
    ("W8A16, groups of 64", "--weights int8 --group-size 64", ("A1", 1.2, "weights")),
    ("W8A16, groups of 128", "--weights int8 --group-size 128", None),
    ("W8A16, per channel", "--weights int8 --weight-scales channel", ("A1", 8.0, "weights")),
    ("W8A16, per tensor", "--weights int8 --weight-scales tensor", None),
    ("W8A8, groups of 32", W8A8 + " --group-size 32", ("A3", 1.5, "weights")),
    ("W8A8, groups of 64", W8A8 + " --group-size 64", ("A3", 1.5, "weights")),
    ("W8A8, groups of 128", W8A8 + " --group-size 128", None),
    ("W8A8, per channel, dynamic", CHANNEL, None),
    ("W8A8, per channel, static", CHANNEL + " --calibration {profile}", None),
    ("W8A8, per channel, smoothed",
     CHANNEL + " --outliers smooth --activation-scales dynamic --calibration {profile}",
     ("A2", 8.0, "weights")),
    ("W8A8, per channel, smoothed, static",
     CHANNEL + " --outliers smooth --calibration {profile}", None),
    ("W8A8, per channel, mixed",
     CHANNEL + " --outliers mixed --activation-scales dynamic --calibration {profile}",
     ("A2", 8.0, "weights")),
    ("W8A8, per channel, most sensitive layers FP16", CHANNEL + " --keep-fp {keep}", None),
    ("W8A8, per tensor, dynamic", W8A8 + " --weight-scales tensor", None),
    ("KV INT8, per token", "--weights fp16 --kv int8", ("A4", 1.5, "kv")),
    ("KV INT8, keys per channel",
     "--weights fp16 --kv int8 --kv-keys channel --calibration {profile}", ("A4", 1.5, "kv")),
]
REFERENCE = "--weights fp16"
TOGETHER = 4  # modes that share one reading of the reference (and the memory)


def call(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stderr[-2000:]}")
    return done


class Cli:
    def __init__(self, args):
        self.head = [args.cli]
        self.tail = ["-m", args.model, "-t", args.threads, "--backend", args.backend]

    def lines(self, command, *more):
        out = call(self.head + [command] + self.tail + list(more) + ["--json"]).stdout
        return [json.loads(line) for line in out.splitlines() if line.strip()]

    def losses(self, text, modes, context):
        """One report for each mode, in order."""
        found = []
        for begin in range(0, len(modes), TOGETHER):
            part = modes[begin:begin + TOGETHER]
            more = ["-f", text, "-c", context, "--reference", REFERENCE] + part[0].split()
            for mode in part[1:]:
                more += ["--also", mode]
            found += self.lines("perplexity", *more)
        return found

    def speed(self, mode, prompt, generated, depth=0):
        rows = self.lines("bench", "-p", prompt, "-n", generated, "-d", depth, "-r", 1,
                          *mode.split())[0]
        of = {("pp" if row["n_prompt"] else "tg"): row["tps_median"] for row in rows}
        return of.get("pp", 0.0), of.get("tg", 0.0)


def ratios(cli, mode, args, depth=0, prompt=None):
    """Prefill and decode speed of a mode over FP16, in turns; medians of the pairs."""
    prefill, decode = [], []
    prompt = args.prompt if prompt is None else prompt
    for turn in range(args.pairs):
        order = [mode, REFERENCE] if turn % 2 == 0 else [REFERENCE, mode]
        speeds = {each: cli.speed(each, prompt, args.generated, depth) for each in order}
        if prompt:
            prefill.append(speeds[mode][0] / speeds[REFERENCE][0])
        decode.append(speeds[mode][1] / speeds[REFERENCE][1])
    return (statistics.median(prefill) if prefill else 0.0), statistics.median(decode)


def llama_units(args, text, folder):
    """Mean KL divergence of Q8_0 and of a q8_0 KV cache against F16, all of llama.cpp."""
    tools = Path(args.llama)
    f16, q8 = folder / "f16.gguf", folder / "q8_0.gguf"
    for kind, file in (("F16", f16), ("Q8_0", q8)):
        if not file.exists():
            call([tools / "llama-quantize", "--allow-requantize", args.model, file, kind])
    base = folder / "base.bin"
    common = ["-f", text, "-c", args.context, "-t", args.threads]
    perplexity = tools / "llama-perplexity"
    call([perplexity, "-m", f16, *common, "--kl-divergence-base", base])

    def divergence(model, *more):
        done = call([perplexity, "-m", model, *common, *more, "--kl-divergence-base", base,
                     "--kl-divergence"])
        found = re.search(r"Mean\s+KLD:\s+([-0-9.e]+)", done.stdout + done.stderr)
        if not found:
            sys.exit("llama-perplexity printed no mean KL divergence")
        return float(found.group(1))

    units = {"weights": divergence(q8),
             "kv": divergence(f16, "-ctk", "q8_0", "-ctv", "q8_0", "-fa", "on")}
    base.unlink()
    return units


def goal_text(goal, kl, units):
    if goal is None or not units:
        return ""
    name, most, unit = goal
    share = kl / units[unit]
    return f"{name} ≤ {most:g} u: {share:.2f} u {'✓' if share <= most else '✗'}"


def mode_table(cli, args, name, text, folder, speeds):
    profile = folder / f"{name}.json"
    source = ["--text", name] if name in ("english", "chinese", "code", "chat") else ["-f", text]
    cli.lines("calibrate", *source, "--tokens", args.calibrate, "-o", profile)
    keep = ""
    if any("{keep}" in options for _, options, _ in MODES):
        ranked = cli.lines("sensitivity", *source, "--by", "layer", "--tokens", 1024,
                           *CHANNEL.split())[0]
        keep = ",".join(row["name"] for row in ranked["layers"][:args.keep])
    modes = [options.format(profile=profile, keep=keep) for _, options, _ in MODES]
    units = llama_units(args, text, folder) if args.llama else {}
    reports = cli.losses(text, modes, args.context)

    print(f"\n### {name}: {reports[0]['tokens']} scored tokens, windows of {args.context}\n")
    if units:
        print(f"Units: llama.cpp Q8_0 {units['weights']:.6f}, q8_0 KV {units['kv']:.6f} "
              "(mean KL against its own F16). ", end="")
    print(f"Kept in FP16: layers {keep}.\n" if keep else "\n")
    print("| mode | weights MB | KV B/token | perplexity | KL mean | KL p99 | same best | decode | "
          "prefill | goal |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for (label, options, goal), mode, found in zip(MODES, modes, reports):
        if options not in speeds and args.pairs > 0:
            speeds[options] = (1.0, 1.0) if options == REFERENCE else ratios(cli, mode, args)
        prefill, decode = speeds.get(options, (0.0, 0.0))
        print(f"| {label} | {found['weight_bytes'] / 1e6:.1f} | {found['kv_bytes_per_token']} | "
              f"{found['perplexity']:.4f} | {found['kl_mean']:.6f} | {found['kl_p99']:.6f} | "
              f"{found['top1_agreement'] * 100:.2f} % | {decode:.2f} | {prefill:.2f} | "
              f"{goal_text(goal, found['kl_mean'], units)} |", flush=True)
    return profile


def depth_table(cli, args, text, profile):
    modes = [("per token", "--weights fp16 --kv int8"),
             ("keys per channel",
              f"--weights fp16 --kv int8 --kv-keys channel --calibration {profile}")]
    print("\n### INT8 KV at depth, against FP16 KV\n")
    print("| depth | scales | KL mean | KL p99 | same best | decode, of FP16 | KV B/token |")
    print("|---:|---|---:|---:|---:|---:|---:|")
    for depth in args.depths:
        context = min(depth, args.longest)
        reports = cli.losses(text, [mode for _, mode in modes], context)
        for (label, mode), found in zip(modes, reports):
            room = depth if depth + args.generated <= args.longest else depth - args.generated
            decode = ratios(cli, mode, args, room, prompt=0)[1] if args.pairs > 0 else 0.0
            print(f"| {depth} | {label} | {found['kl_mean']:.6f} | {found['kl_p99']:.6f} | "
                  f"{found['top1_agreement'] * 100:.2f} % | {decode:.2f} | "
                  f"{found['kv_bytes_per_token']} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+", metavar="NAME=FILE",
                        help="a bundled text's name says on which it is calibrated")
    parser.add_argument("--cli", required=True, help="vitrine-cli")
    parser.add_argument("-m", "--model", required=True, help="GGUF file")
    parser.add_argument("--llama", help="folder with llama-quantize and llama-perplexity")
    parser.add_argument("--backend", default="cpu")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-c", "--context", type=int, default=512)
    parser.add_argument("--pairs", type=int, default=5, help="0: no speeds")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generated", type=int, default=64)
    parser.add_argument("--modes", default="", help="only those whose name this pattern finds")
    parser.add_argument("--calibrate", type=int, default=4096, help="tokens of each text")
    parser.add_argument("--keep", type=int, default=3, help="layers that stay FP16")
    parser.add_argument("--depths", type=lambda text: [int(part) for part in text.split(",")],
                        default=[512, 2048, 4096, 8192])
    parser.add_argument("--longest", type=int, default=8192, help="the model's context")
    args = parser.parse_args()
    texts = [part.split("=", 1) for part in args.texts]
    if any(len(part) != 2 or not Path(part[1]).is_file() for part in texts):
        parser.error("each text is NAME=FILE, and the file must be there")

    MODES[:] = [mode for mode in MODES if re.search(args.modes, mode[0])]

    cli, speeds = Cli(args), {}
    with tempfile.TemporaryDirectory() as name:
        folder, profile = Path(name), None
        for label, text in texts:
            made = mode_table(cli, args, label, text, folder, speeds)
            profile = profile or made
        if args.depths:
            depth_table(cli, args, texts[0][1], profile)


if __name__ == "__main__":
    main()
