#!/usr/bin/env python3
"""What every INT8 mode costs and gains, as two Markdown tables.

For each text, every mode against FP16 in one process (KL divergence, best token, perplexity), bytes
of weights, and decode and prefill speed as ratios to FP16 measured in turns. With --llama, KL
divergences of llama.cpp's Q8_0 and of its q8_0 KV cache against its own F16 over the same text are
the units in which the goals are given. The second table is INT8 KV at depth.

  int8_table.py --cli build/release/bin/vitrine-cli -m MODEL.gguf english=book.txt code=source.txt

With --results FILE every figure is kept there as it comes and is
not measured again, so that the work can be done in parts: speeds on an idle machine (--only speeds),
losses whenever there is time (--only losses), the tables from both without --only.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

W8A8 = "--weights int8 --activations int8"
CHANNEL = W8A8 + " --weight-scales channel"

# name, options, goal (see goal_text()); {profile} and {keep} are filled in for each text.
MODES = [
    ("FP16", "--weights fp16", None),
    ("W8A16, groups of 32", "--weights int8 --group-size 32", ("A1", 1.2, "weights", None)),
    ("W8A16, groups of 64", "--weights int8 --group-size 64", ("A1", 1.2, "weights", None)),
    ("W8A16, groups of 128", "--weights int8 --group-size 128", None),
    ("W8A16, per channel", "--weights int8 --weight-scales channel", ("A1", 8.0, "weights", None)),
    ("W8A16, per tensor", "--weights int8 --weight-scales tensor", None),
    ("W8A8, groups of 32", W8A8 + " --group-size 32", ("A3", 1.5, "weights", None)),
    ("W8A8, groups of 64", W8A8 + " --group-size 64", ("A3", 1.5, "weights", None)),
    ("W8A8, groups of 128", W8A8 + " --group-size 128", None),
    ("W8A8, per channel, dynamic", CHANNEL, None),
    ("W8A8, per channel, static", CHANNEL + " --calibration {profile}", None),
    ("W8A8, per channel, smoothed",
     CHANNEL + " --outliers smooth --activation-scales dynamic --calibration {profile}",
     ("A2", 8.0, "weights", 1.0)),
    ("W8A8, per channel, smoothed, static",
     CHANNEL + " --outliers smooth --calibration {profile}", None),
    ("W8A8, per channel, mixed from 6 times the median",
     CHANNEL + " --outliers mixed --outlier-threshold 6 --activation-scales dynamic "
     "--calibration {profile}", ("A2", 8.0, "weights", 1.0)),
    ("W8A8, per channel, mixed from 3",
     CHANNEL + " --outliers mixed --outlier-threshold 3 --activation-scales dynamic "
     "--calibration {profile}", ("A2", 8.0, "weights", 1.0)),
    ("W8A8, per channel, mixed from 3, static",
     CHANNEL + " --outliers mixed --outlier-threshold 3 --calibration {profile}", None),
    ("W8A8, per channel, most sensitive layers FP16", CHANNEL + " --keep-fp {keep}", None),
    ("W8A8, per tensor, dynamic", W8A8 + " --weight-scales tensor", None),
    ("KV INT8, per token", "--weights fp16 --kv int8", ("A4", 1.5, "kv", 0.2)),
    ("KV INT8, keys per channel",
     "--weights fp16 --kv int8 --kv-keys channel --calibration {profile}", ("A4", 1.5, "kv", 0.2)),
]
KV_MODES = [("per token", MODES[-2][1]), ("keys per channel", MODES[-1][1])]
REFERENCE = "--weights fp16"
TOGETHER = 9  # modes that share one reading of the reference (and the memory)


def call(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stderr[-2000:]}")
    return done


class Results:
    """Figures by name, kept in a file where one is given."""

    def __init__(self, path):
        self.path = Path(path) if path else None
        self.values = json.loads(self.path.read_text()) if path and self.path.exists() else {}

    @staticmethod
    def name(*key):
        return " | ".join(str(part) for part in key)

    def get(self, *key, measure):
        name = self.name(*key)
        if name not in self.values:
            self.values[name] = measure()
            if self.path:
                self.path.write_text(json.dumps(self.values, indent=1))
        return self.values[name]


class Cli:
    def __init__(self, args):
        self.head = [args.cli]
        self.tail = ["-m", args.model, "-t", args.threads, "--backend", args.backend]

    def lines(self, command, *more):
        out = call(self.head + [command] + self.tail + list(more) + ["--json"]).stdout
        return [json.loads(line) for line in out.splitlines() if line.strip()]

    def speed(self, mode, prompt, generated, depth=0):
        rows = self.lines("bench", "-p", prompt, "-n", generated, "-d", depth, "-r", 1,
                          *mode.split())[0]
        of = {("pp" if row["n_prompt"] else "tg"): row["tps_median"] for row in rows}
        return of.get("pp", 0.0), of.get("tg", 0.0)


class Table:
    """What a run measures; `options` of a mode name its figures, with {profile} and {keep} open."""

    def __init__(self, args, folder):
        self.args, self.folder = args, folder
        self.cli, self.results = Cli(args), Results(args.results)

    def source(self, name, text):
        bundled = ("english", "chinese", "code", "chat")
        return ["--text", name] if name in bundled else ["-f", text]

    def profile(self, name, text):
        """A profile of the kind of text, made once in a run."""
        path = self.folder / f"{name}.json"
        if not path.exists():
            self.cli.lines("calibrate", *self.source(name, text), "--tokens", self.args.calibrate,
                           "-o", path)
        return path

    def kept(self, name, text):
        def measure():
            ranked = self.cli.lines("sensitivity", *self.source(name, text), "--by", "layer",
                                    "--tokens", 1024, *CHANNEL.split())[0]
            return ",".join(row["name"] for row in ranked["layers"][:self.args.keep])
        return self.results.get("kept", name, self.args.keep, measure=measure)

    def fill(self, options, name, text):
        parts = {}
        if "{profile}" in options:
            parts["profile"] = self.profile(name, text)
        if "{keep}" in options:
            parts["keep"] = self.kept(name, text)
        return options.format(**parts)

    def losses(self, name, text, all_options, context):
        """One report for each mode, in order. Those that are not known yet are measured together."""
        def key(options):
            return "loss", name, context, options

        known = self.results.values
        missing = [options for options in all_options if Results.name(*key(options)) not in known]
        for begin in range(0, len(missing), TOGETHER):
            part = missing[begin:begin + TOGETHER]
            modes = [self.fill(options, name, text) for options in part]
            more = ["-f", text, "-c", context, "--reference", REFERENCE] + modes[0].split()
            for mode in modes[1:]:
                more += ["--also", mode]
            for options, report in zip(part, self.cli.lines("perplexity", *more)):
                self.results.get(*key(options), measure=lambda: report)
        return [known[Results.name(*key(options))] for options in all_options]

    def ratios(self, name, text, options, depth=0, prompt=None):
        """Prefill and decode speed of a mode over FP16, in turns; medians of the pairs."""
        if options == REFERENCE:
            return 1.0, 1.0
        args = self.args
        prompt = args.prompt if prompt is None else prompt

        def measure():
            mode = self.fill(options, name, text)
            pairs = []
            for turn in range(args.pairs):
                order = [mode, REFERENCE] if turn % 2 == 0 else [REFERENCE, mode]
                speeds = {each: self.cli.speed(each, prompt, args.generated, depth)
                          for each in order}
                pairs.append([ours / theirs if theirs else 0.0
                              for ours, theirs in zip(speeds[mode], speeds[REFERENCE])])
            return [statistics.median(pair[side] for pair in pairs) for side in (0, 1)]
        return self.results.get("speed", depth, prompt, options, measure=measure)

    def llama_units(self, name, text):
        """Of llama.cpp over the text: KL divergence of Q8_0 and of a q8_0 KV cache against its own
        F16, and of our FP16 against that F16 (A0)."""
        args = self.args
        tools = Path(args.llama)

        def measure():
            f16, q8 = self.folder / "f16.gguf", self.folder / "q8_0.gguf"
            for kind, file in (("F16", f16), ("Q8_0", q8)):
                if not file.exists():
                    call([tools / "llama-quantize", "--allow-requantize", args.model, file, kind])
            base = self.folder / "base.bin"
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
            units["ours"] = self.cli.lines("perplexity", "--llama-logits", base,
                                           *REFERENCE.split())[0]
            base.unlink()
            return units
        return self.results.get("llama", name, args.context, measure=measure)


def change(report):
    """Of perplexity against the reference, in percent."""
    return (report["perplexity"] / report["reference_perplexity"] - 1) * 100


def goal_text(goal, report, units):
    """Of KL divergence in units of llama.cpp, for some of the change of perplexity as well."""
    if goal is None or not units:
        return ""
    name, most, unit, most_change = goal
    share = report["kl_mean"] / units[unit]
    met = share <= most and (most_change is None or abs(change(report)) <= most_change)
    bound = f"{most:g} u" + (f", {most_change:g} %" if most_change else "")
    return f"{name} ≤ {bound}: {share:.2f} u {'✓' if met else '✗'}"


def print_modes(table, name, text):
    args = table.args
    reports = table.losses(name, text, [options for _, options, _ in MODES], args.context)
    units = table.llama_units(name, text) if args.llama else {}
    print(f"\n### {name}: {reports[0]['tokens']} scored tokens, windows of {args.context}\n")
    if units:
        ours = units["ours"]
        print(f"Units, mean KL of llama.cpp against its own F16: Q8_0 {units['weights']:.6f}, q8_0 KV "
              f"{units['kv']:.6f}. A0, our FP16 against llama.cpp's F16: KL {ours['kl_mean']:.6f}, "
              f"same best {ours['top1_agreement'] * 100:.2f} % of {ours['tokens']}.\n")
    if any("{keep}" in options for _, options, _ in MODES):
        print(f"Kept in FP16: layers {table.kept(name, text)}.\n")
    print("| mode | weights MB | KV B/token | perplexity | change | KL mean | KL p99 | same best | "
          "decode | prefill | goal |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|")
    for (label, options, goal), found in zip(MODES, reports):
        prefill, decode = table.ratios(name, text, options) if args.pairs else (0.0, 0.0)
        print(f"| {label} | {found['weight_bytes'] / 1e6:.1f} | {found['kv_bytes_per_token']} | "
              f"{found['perplexity']:.4f} | {change(found):+.2f} % | {found['kl_mean']:.6f} | "
              f"{found['kl_p99']:.6f} | {found['top1_agreement'] * 100:.2f} % | {decode:.2f} | "
              f"{prefill:.2f} | {goal_text(goal, found, units)} |", flush=True)


def depth_of(args, depth):
    """Cached tokens at which a depth's decode is measured: its answer must fit."""
    return min(depth, args.longest - args.generated)


def print_depths(table, name, text):
    args = table.args
    print("\n### INT8 KV at depth, against FP16 KV\n")
    print("| context | scored | scales | KL mean | KL p99 | same best | decode, of FP16 | KV B/token |")
    print("|---:|---:|---|---:|---:|---:|---:|---:|")
    for depth in args.depths:
        reports = table.losses(name, text, [options for _, options in KV_MODES], depth)
        for (label, options), found in zip(KV_MODES, reports):
            decode = table.ratios(name, text, options, depth_of(args, depth), prompt=0)[1]
            print(f"| {depth} | {found['tokens']} | {label} | {found['kl_mean']:.6f} | {found['kl_p99']:.6f} | "
                  f"{found['top1_agreement'] * 100:.2f} % | {decode:.2f} | "
                  f"{found['kv_bytes_per_token']} |", flush=True)


def measure(table, texts):
    """Only what --only names, without tables."""
    args = table.args
    if args.only == "speeds":
        name, text = texts[0]
        for _, options, _ in MODES:
            table.ratios(name, text, options)
        for depth in args.depths:
            for _, options in KV_MODES:
                table.ratios(name, text, options, depth_of(args, depth), prompt=0)
        return
    for name, text in texts:
        table.losses(name, text, [options for _, options, _ in MODES], args.context)
        if args.llama:
            table.llama_units(name, text)
    for depth in args.depths:
        table.losses(*texts[0], [options for _, options in KV_MODES], depth)


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
    parser.add_argument("--results", metavar="FILE", help="JSON: what is there is not measured again")
    parser.add_argument("--only", choices=["speeds", "losses"], help="measure these, print no table")
    parser.add_argument("--force", action="store_true", help="speeds also on a loaded machine")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generated", type=int, default=64)
    parser.add_argument("--modes", default="", help="only those whose name this pattern finds")
    parser.add_argument("--calibrate", type=int, default=4096, help="tokens of each text")
    parser.add_argument("--keep", type=int, default=3, help="layers that stay FP16")
    parser.add_argument("--depths", default=[512, 2048, 4096, 8192],
                        type=lambda text: [int(part) for part in text.split(",") if part],
                        help="contexts of the second table; \"\": none")
    parser.add_argument("--longest", type=int, default=8192, help="the model's context")
    args = parser.parse_args()
    texts = [part.split("=", 1) for part in args.texts]
    if any(len(part) != 2 or not Path(part[1]).is_file() for part in texts):
        parser.error("each text is NAME=FILE, and the file must be there")

    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if args.pairs and args.only != "losses" and load > 0.3 and not args.force:
        sys.exit(f"the load is {load:.2f} a core, above 0.3: speeds would mean nothing (--force; "
                 "--only losses or --pairs 0 measure none)")

    MODES[:] = [mode for mode in MODES if re.search(args.modes, mode[0])]

    with tempfile.TemporaryDirectory() as folder:
        table = Table(args, Path(folder))
        if args.only:
            measure(table, texts)
            return
        for name, text in texts:
            print_modes(table, name, text)
        if args.depths:
            print_depths(table, *texts[0])


if __name__ == "__main__":
    main()
