#!/usr/bin/env python3
"""Vitrine's CPU backend against llama.cpp, side by side on this machine.

    compare.py --vitrine build/release/bin/vitrine-cli --llama-bench .../llama-bench \\
               --model model.Q8_0.gguf --weights int8 --pairs 5

Each pair runs both programs once, in turn (A B, B A, …), with the same threads and the same numbers
of tokens; of llama.cpp's runs with and without flash attention the better counts. Printed for each
test: both medians in tokens a second, their ratio, and a 95 % bootstrap interval of the ratio.
Absolute numbers belong to the machine and the hour; only ratios travel.

Two programs that spin collapse when anything else runs, so a loaded machine is refused (--force).
--model is what Vitrine loads, --llama-model what llama.cpp loads (the same, if not given).
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\nfailed with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def vitrine(args):
    command = [args.vitrine, "bench", "-m", args.model, "--backend", "cpu", "-t", str(args.threads),
               "-p", args.prompt, "-n", args.generate, "-d", args.depth, "-r", "1", "--json",
               "--weights", args.weights, "--activations", args.activations, "--kv", args.kv]
    return {(r["n_prompt"], r["n_gen"], r["depth"]): r["tps_median"] for r in json.loads(run(command))}


def llama(args):
    command = [args.llama_bench, "-m", args.llama_model or args.model, "-t", str(args.threads),
               "-p", args.prompt, "-n", args.generate, "-d", args.depth, "-r", "1", "-fa", "0,1",
               "-o", "json"]
    speeds = {}
    for r in json.loads(run(command)):
        key = (r["n_prompt"], r["n_gen"], r["n_depth"])
        speeds[key] = max(speeds.get(key, 0.0), r["avg_ts"])
    return speeds


def interval(ours, theirs, draws=4000):
    """95 % interval of the ratio of medians, pairs drawn with replacement."""
    generator = random.Random(1)
    n = len(ours)
    ratios = []
    for _ in range(draws):
        picked = [generator.randrange(n) for _ in range(n)]
        ratios.append(statistics.median(ours[i] for i in picked) /
                      statistics.median(theirs[i] for i in picked))
    ratios.sort()
    return ratios[int(0.025 * draws)], ratios[int(0.975 * draws)]


def processor():
    fields = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    return (f"{fields.get('model name', '?')}, {fields.get('vendor_id', '?')} family "
            f"{fields.get('cpu family', '?')} model {fields.get('model', '?')}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vitrine", required=True, help="vitrine-cli")
    parser.add_argument("--llama-bench", required=True)
    parser.add_argument("--probes", help="bench_kernels; default: beside vitrine-cli")
    parser.add_argument("--model", required=True)
    parser.add_argument("--llama-model")
    parser.add_argument("--weights", default="native")
    parser.add_argument("--activations", default="fp16")
    parser.add_argument("--kv", default="fp16")
    parser.add_argument("-t", "--threads", type=int, default=2)
    parser.add_argument("-p", "--prompt", default="512")
    parser.add_argument("-n", "--generate", default="128")
    parser.add_argument("-d", "--depth", default="0", help="a list: 0,4096")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--json", help="write the samples here")
    parser.add_argument("--force", action="store_true", help="also on a loaded machine")
    args = parser.parse_args()

    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    if load > 0.3 and not args.force:
        sys.exit(f"the load is {load:.2f} a core, above 0.3: numbers would mean nothing (--force)")

    probes = args.probes or pathlib.Path(args.vitrine).with_name("bench_kernels")
    machine = json.loads(run([probes, "--probes", str(args.threads)]))
    print(f"{processor()}; {args.threads} threads; {machine['isa']}; load {load:.2f} a core")
    print(f"read {machine['read_gbps']:.1f} GB/s; {machine['int8_instruction']} "
          f"{machine['int8_gops']:.0f} GOP/s; {machine['bf16_instruction']} "
          f"{machine['bf16_gflops']:.0f} GFLOP/s")
    print(f"{pathlib.Path(args.model).name}: weights {args.weights}, activations {args.activations}, "
          f"KV {args.kv}; against {pathlib.Path(args.llama_model or args.model).name}")

    ours, theirs = {}, {}
    for pair in range(args.pairs):
        order = [(vitrine, ours), (llama, theirs)]
        for program, samples in order if pair % 2 == 0 else reversed(order):
            for key, speed in program(args).items():
                samples.setdefault(key, []).append(speed)

    print(f"{'test':<20} {'vitrine':>10} {'llama.cpp':>10} {'ratio':>7}   95 %")
    for key in sorted(ours.keys() & theirs.keys()):
        prompt, generated, depth = key
        name = (f"pp{prompt}" if prompt else f"tg{generated}") + (f" @ d{depth}" if depth else "")
        a, b = statistics.median(ours[key]), statistics.median(theirs[key])
        low, high = interval(ours[key], theirs[key])
        print(f"{name:<20} {a:>10.1f} {b:>10.1f} {a / b:>7.2f}   {low:.2f} to {high:.2f}")
    if args.json:
        samples = [{"n_prompt": k[0], "n_gen": k[1], "depth": k[2], "vitrine": ours[k],
                    "llama": theirs.get(k)} for k in sorted(ours)]
        pathlib.Path(args.json).write_text(json.dumps({"machine": machine, "samples": samples}, indent=1))


main()
