#!/usr/bin/env python3
"""Mutation test of the CUDA kernels: edits them one fault at a time and asks whether a test sees it.

Usage: mutate.py [--build build] [--jobs 2] [--only TEXT] [--stages plain,shuffled,asan,tsan] [--check]

Needs the presets dev, asan and tsan configured below --build, with the kernel tests built there
(a preset that is missing is left out, and said so). For each entry of mutations.py the sources that
contain the edited file are compiled once more and linked with the objects of the rest into a private
copy of the kernel library in a temporary folder; tests find it by LD_LIBRARY_PATH. The stages stop at
the first that sees the fault. Nothing of the source tree or the build is changed.

--check only makes sure that every edit still fits its file. Ends with 1 if less
than 95 % of the mutants that are not equivalent are caught, or if a test fails without a mutation.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

from mutations import MUTATIONS

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "kernels/cuda"
LIBRARY = "libvitrine_kernels_cuda_on_cpu.so"
OBJECTS = "tests/cuda_on_cpu/CMakeFiles/vitrine_kernels_cuda_on_cpu.dir"
GOAL = 0.95
TIME_LIMIT = 300  # seconds for a test; a mutant that hangs is caught

# Which tests see which source: (pattern of the source's name, program, its arguments).
VALUE_TESTS = [
    (r"rows|logits_softcap|gemv|gemm|rope|attention", "tst_operations", []),
    (r"rows", "tst_cuda_rows", []),
    (r"rope", "tst_cuda_rope", []),
    (r"logits", "tst_cuda_logits", []),
    (r"gemv|gemm", "tst_cuda_linear", []),
    (r"attention|copy_block", "tst_cuda_attention", []),
]
RACE_TESTS = [(r".", "tst_cuda_races", [])]
OP_BACKEND = {"VITRINE_OP_BACKEND": "cuda"}

# name, preset, tests, environments in which they run
STAGES = [
    ("plain", "dev", VALUE_TESTS, [OP_BACKEND]),
    ("shuffled", "dev", VALUE_TESTS,
     [OP_BACKEND | {"CUDA_ON_CPU_SEED": str(seed), "CUDA_ON_CPU_LAZY": "1"} for seed in (1, 2, 3)]),
    ("asan", "asan", VALUE_TESTS, [OP_BACKEND]),
    ("tsan", "tsan", RACE_TESTS,
     [OP_BACKEND | {"TSAN_OPTIONS": f"halt_on_error=1 suppressions={ROOT}/tests/tsan.supp"}]),
]


class Build:
    """What of a configured preset is needed to make another library of kernels."""

    def __init__(self, folder):
        self.folder = folder
        self.commands = {}
        for entry in json.loads((folder / "compile_commands.json").read_text()):
            if OBJECTS in entry["command"] or OBJECTS in entry.get("output", ""):
                self.commands[pathlib.Path(entry["file"]).name] = entry

    def program(self, name):
        path = self.folder / "bin" / name
        return path if path.exists() else None

    def units(self):
        return sorted(name for name in self.commands if name.endswith(".cu"))

    def make_library(self, units, include, out):
        """Compiles `units`, which find what they include in `include` first; None or the problem."""
        made = {}
        for unit in units:
            entry = self.commands[unit]
            command = shlex.split(entry["command"])
            if pathlib.Path(command[0]).name == "ccache":
                del command[0]
            at = command.index("-o")
            old = pathlib.Path(command[at + 1])
            made[old.name] = command[at + 1] = str(out / f"{unit}.o")
            for flag in ("-MF", "-MT"):  # no dependency files: they belong to the build
                if flag in command:
                    i = command.index(flag)
                    del command[i:i + 2]
            command = [c for c in command if c not in ("-MD", "-g", "-Werror")]
            mutated = include / "kernels/cuda" / unit
            if mutated.exists():
                command[-1] = str(mutated)
            command.insert(1, f"-I{include}")
            done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
            if done.returncode != 0:
                return done.stderr
        folder = self.folder / OBJECTS
        objects = [str(made.get(o.name, o)) for o in sorted(folder.rglob("*.o"))]
        entry = self.commands[units[0]]
        sanitize = [f for f in shlex.split(entry["command"]) if f.startswith("-fsanitize")]
        harness = self.folder / "tests/cuda_on_cpu"
        done = subprocess.run(["c++", "-shared", "-fPIC", *sanitize, f"-Wl,-soname,{LIBRARY}", "-o",
                               str(out / LIBRARY), *objects, f"-L{harness}", "-lcuda_on_cpu",
                               f"-Wl,-rpath,{harness}"], capture_output=True, text=True)
        return done.stderr if done.returncode != 0 else None


def includers(name):
    """The .cu sources that contain a file, directly or by way of others."""
    found, open_files = set(), {name}
    sources = {p.name: p.read_text() for p in KERNELS.iterdir() if p.suffix in (".cu", ".cuh", ".h")}
    seen = set()
    while open_files:
        current = open_files.pop()
        seen.add(current)
        if current.endswith(".cu"):
            found.add(current)
        for other, text in sources.items():
            if f'"kernels/cuda/{current}"' in text and other not in seen:
                open_files.add(other)
    return sorted(found)


def edited(mutation):
    """The text of the mutated file, or a sentence why the edit does not fit."""
    path = KERNELS / mutation.file
    if not path.exists():
        return None, f"{mutation.file} does not exist"
    text = path.read_text()
    count = text.count(mutation.old)
    if mutation.nth is None and count != 1:
        return None, f"{mutation.file} has {count} places like: {mutation.old!r}"
    if mutation.nth is not None and count <= mutation.nth:
        return None, f"{mutation.file} has only {count} places like: {mutation.old!r}"
    at = -1
    for _ in range((mutation.nth or 0) + 1):
        at = text.index(mutation.old, at + 1)
    return text[:at] + mutation.new + text[at + len(mutation.old):], None


def tests_for(tests, units):
    return [(program, arguments) for pattern, program, arguments in tests
            if any(re.search(pattern, unit) for unit in units)]


def run_tests(build, tests, units, environment, library_folder):
    """None if all pass, else what was seen."""
    ran = 0
    for program, arguments in tests_for(tests, units):
        path = build.program(program)
        if path is None:
            continue
        ran += 1
        env = dict(os.environ, QT_QPA_PLATFORM="offscreen", **environment)
        if library_folder is not None:
            env["LD_LIBRARY_PATH"] = str(library_folder)
        try:
            done = subprocess.run([str(path), "-silent", *arguments], env=env, timeout=TIME_LIMIT,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  errors="replace")
        except subprocess.TimeoutExpired:
            return f"{program}: hangs"
        if done.returncode != 0:
            lines = [line for line in done.stdout.splitlines()
                     if re.search(r"FAIL!|ERROR: Address|runtime error|data race|rror", line)]
            return f"{program}: {(lines or ['ends with %d' % done.returncode])[0][:110]}"
    return None if ran else "no test"


def try_mutation(mutation, stages, builds):
    """(name of the stage that saw it or "", detail)."""
    text, problem = edited(mutation)
    if problem:
        return "broken", problem
    with tempfile.TemporaryDirectory(prefix="mutate_") as folder:
        include = pathlib.Path(folder) / "source"
        (include / "kernels/cuda").mkdir(parents=True)
        (include / "kernels/cuda" / mutation.file).write_text(text)
        libraries = {}
        for name, preset, tests, environments in stages:
            build = builds[preset]
            units = mutation.units or [u for u in includers(mutation.file) if u in build.commands]
            if preset not in libraries:
                out = pathlib.Path(folder) / preset
                out.mkdir()
                problem = build.make_library(units, include, out)
                if problem:
                    return "broken", "does not compile: " + problem.splitlines()[0][:150]
                libraries[preset] = out
            for environment in environments:
                seen = run_tests(build, tests, units, environment, libraries[preset])
                if seen:
                    return name, seen
    return "", ""


def check_edits():
    problems = [edited(m)[1] for m in MUTATIONS]
    problems = [p for p in problems if p]
    print("\n".join(problems) if problems else f"{len(MUTATIONS)} edits fit the kernels")
    return 1 if problems else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default=".", help="mutations whose file or name matches this")
    parser.add_argument("--stages", default="plain,shuffled,asan,tsan")
    parser.add_argument("--equivalent", action="store_true", help="also run equivalent mutants")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.check:
        return check_edits()

    stages, builds = [], {}
    for stage in STAGES:
        name, preset = stage[0], stage[1]
        folder = pathlib.Path(options.build) / preset
        if name not in options.stages.split(","):
            continue
        if not (folder / "compile_commands.json").exists():
            print(f"without stage {name}: {folder} is not configured")
            continue
        builds.setdefault(preset, Build(folder))
        stages.append(stage)
    for name, preset, tests, environments in stages:
        for environment in environments[:1]:
            seen = run_tests(builds[preset], tests, builds[preset].units(), environment, None)
            if seen:
                print(f"without a mutation, stage {name} sees: {seen}")
                return 1

    chosen = [m for m in MUTATIONS if re.search(options.only, f"{m.file} {m.name}")]
    counted = [m for m in chosen if options.equivalent or not m.equivalent]
    results = {}
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        futures = {pool.submit(try_mutation, m, stages, builds): m for m in counted}
        for future in concurrent.futures.as_completed(futures):
            m = futures[future]
            results[m.name] = future.result()
            stage, detail = results[m.name]
            print(f"{stage or 'SURVIVES':9} {m.file}: {m.name}  [{detail}]", flush=True)

    real = [m for m in counted if not m.equivalent]
    caught = [m for m in real if results[m.name][0] not in ("", "broken")]
    print(f"\n{len(real)} mutants, {len(caught)} caught ({len(caught) / max(1, len(real)):.1%}) in "
          f"{time.monotonic() - begin:.0f} s:")
    for name, *_ in stages:
        print(f"  {name}: {sum(results[m.name][0] == name for m in real)}")
    print(f"  {sum(1 for m in chosen if m.equivalent)} more are equivalent")
    for m in real:
        if results[m.name][0] in ("", "broken"):
            print(f"  {results[m.name][0] or 'survives'}: {m.file}: {m.name} {results[m.name][1]}")
    return 0 if real and len(caught) >= GOAL * len(real) else 1


if __name__ == "__main__":
    sys.exit(main())
