#!/usr/bin/env python3
"""Looks at the machine code of the CUDA kernels, which needs no GPU.

  cuda_code.py [--tools FOLDER] check OBJECT...      the promises below; 77: the tools are not to be had
  cuda_code.py [--tools FOLDER] table OBJECT...      registers, memory and occupancy, as Markdown
  cuda_code.py compile NVCC ROOT FOLDER ARCH...      objects of kernels/cuda/*.cu for other GPUs

OBJECT: what nvcc made. cuobjdump and nvdisasm come from PATH or, through pip, into FOLDER.
kernels/cuda/resources.md is `table` of the objects of every architecture that we build for.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIPPED = 77
PACKAGES = ["nvidia-cuda-cuobjdump==13.5.37", "nvidia-cuda-nvdisasm==13.5.37"]

# Not on the way of every token; may use local memory.
COLD = re.compile(r"ropeAngles")

# Dynamic shared memory of a launch, where a kernel has it: bytes by name.
DYNAMIC_SHARED = {"groupedInt8Kernel": 2 * 11264}

# Of one multiprocessor: threads, blocks, registers, shared memory, of which a block loses some.
LIMITS = {
    75: (1024, 16, 65536, 64 << 10, 0),
    80: (2048, 32, 65536, 164 << 10, 1 << 10),
    86: (1536, 16, 65536, 100 << 10, 1 << 10),
    89: (1536, 24, 65536, 100 << 10, 1 << 10),
    90: (2048, 32, 65536, 228 << 10, 1 << 10),
    100: (2048, 32, 65536, 228 << 10, 1 << 10),
    120: (1536, 24, 65536, 100 << 10, 1 << 10),
}


class Kernel:
    def __init__(self, arch, symbol):
        self.arch, self.symbol, self.name = arch, symbol, symbol
        self.code = []  # (address, instruction)
        self.registers = self.stack = self.shared = self.local = self.threads = 0

    def count(self, pattern):
        return sum(1 for _, text in self.code if re.match(pattern, text))

    def loop_with(self, pattern):
        """The smallest loop that has such an instruction."""
        best = []
        for i, (address, text) in enumerate(self.code):
            target = re.match(r"BRA(?:\.U)? (?:`\(\S+\)|\S+, )?.*?(0x[0-9a-f]+)", text)
            if not target or int(target[1], 16) > address:
                continue
            first = int(target[1], 16)
            body = [t for a, t in self.code[: i + 1] if a >= first]
            if any(re.match(pattern, t) for t in body) and (not best or len(body) < len(best)):
                best = body
        return best

    def blocks(self):
        """Blocks of a multiprocessor at once, and its share of all warps in percent."""
        threads, blocks, registers, shared, reserved = LIMITS[self.arch]
        warps = -(-self.threads // 32)
        per_warp = -(-self.registers * 32 // 256) * 256
        by_registers = registers // per_warp // 4 * 4 // warps if self.registers else blocks
        used = self.shared + self.dynamic() + reserved
        by_shared = shared // (-(-used // 128) * 128) if used else blocks
        resident = min(threads // (warps * 32), blocks, by_registers, by_shared)
        return resident, 100 * resident * warps * 32 // threads

    def dynamic(self):
        return next((b for name, b in DYNAMIC_SHARED.items() if self.name.startswith(name)), 0)


def find_tools(folder):
    """(cuobjdump, environment), or (None, why not)."""
    def search(path):
        found = shutil.which("cuobjdump", path=path), shutil.which("nvdisasm", path=path)
        return found[0] if all(found) else None

    path = os.environ.get("PATH", "")
    program = search(path)
    problem = "cuobjdump and nvdisasm are not on PATH, and no folder to install them was given"
    if not program and folder:
        folder = Path(folder)
        done = folder / "complete"
        if not done.exists():
            print(f"Installing {' and '.join(PACKAGES)} into {folder}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            try:
                subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--target", folder,
                                "--disable-pip-version-check", "--no-deps", *PACKAGES],
                               check=True, timeout=180, capture_output=True, text=True)
                done.touch()
            except (OSError, subprocess.SubprocessError) as error:
                tail = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
                problem = f"cuobjdump and nvdisasm could not be installed: {' '.join(tail)}"
        if done.exists():
            for candidate in sorted(folder.glob("nvidia/*/bin")):
                path = f"{candidate}{os.pathsep}{path}"
            program = search(path)
            problem = f"no cuobjdump among the packages in {folder}"
    return (program, dict(os.environ, PATH=path)) if program else (None, problem)


def short(demangled):
    name = re.sub(r"vitrine::kernels::cuda::|\(anonymous namespace\)::", "", demangled)
    name = re.sub(r"^void ", "", name)
    depth = 0
    for i, c in enumerate(name):  # the parameters begin at a parenthesis outside of < >
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return re.sub(r"\((?:vitrine::\w+::)*(\w+)\)", r"\1 ", name[:i])
    return name


def read(objects, program, environment):
    kernels = {}

    def dump(option, path):
        return subprocess.run([program, option, path], env=environment, check=True,
                              capture_output=True, text=True).stdout.splitlines()

    def kernel(arch, symbol):
        return kernels.setdefault((arch, symbol), Kernel(arch, symbol))

    for path in objects:
        arch = current = None
        for line in dump("-sass", path):
            if m := re.match(r"\s*code for sm_(\d+)", line):
                arch = int(m[1])
            elif m := re.match(r"\s*Function : (\S+)", line):
                current = kernel(arch, m[1])
            elif m := re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+ )?(.*?)\s*;", line):
                current.code.append((int(m[1], 16), m[2]))
        for line in dump("-res-usage", path):
            if m := re.match(r"arch = sm_(\d+)|Fatbin elf code:", line):
                arch = int(m[1]) if m[1] else arch
            elif m := re.match(r"\s*Function (\S+):", line):
                current = kernel(arch, m[1])
            elif m := re.match(r"\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)", line):
                current.registers, current.stack, current.shared, current.local = map(int, m.groups())
        section, threads_next = None, False
        for line in dump("-elf", path):
            if m := re.match(r"arch = sm_(\d+)", line):
                arch = int(m[1])
            elif m := re.match(r"\s*\.nv\.info\.(\S+)\s*$", line):
                section = m[1]
            elif "EIATTR_MAX_THREADS" in line:
                threads_next = True
            elif threads_next and (m := re.search(r"Value:\s*((?:0x[0-9a-f]+ ?)+)", line)):
                size = 1
                for part in m[1].split()[:3]:
                    size *= int(part, 16)
                if section:
                    kernel(arch, section).threads = size
                threads_next = False
    result = [k for k in kernels.values() if k.code]
    names = subprocess.run(["c++filt"], input="\n".join(k.symbol for k in result), check=True,
                           capture_output=True, text=True).stdout.splitlines()
    for k, name in zip(result, names):
        k.name = short(name)
    return sorted(result, key=lambda k: (k.arch, k.name))


# --- What the code must look like: each returns sentences about what it does not.

def check_local(k):
    if COLD.match(k.name):
        return
    if k.stack or k.local:
        yield f"uses {k.stack} bytes of stack and {k.local} of local memory"
    if spills := k.count(r"LDL|STL"):
        yield f"reads or writes local memory in {spills} places"


ARITHMETIC = r"FFMA|FMUL|FADD|HADD2|HFMA2|IDP|PRMT|I2F|LOP3|IMAD\.U32|IMAD\.SHL|SHF"


def check_gemv(k):
    """Matrix-vector: all weights of a step are on their way before the first is used."""
    m = re.match(r"gemvKernel<(\w+?)Product<(\w+)>, (\d+)", k.name)
    if not m:
        return
    rows = int(m[3])
    wanted = 8 if rows <= 4 else 4
    body = k.loop_with(r"LDG\.E\.EF\.128")
    first = next((i for i, t in enumerate(body) if re.match(ARITHMETIC, t)), len(body))
    flying = sum(1 for t in body[:first] if re.match(r"LDG\.E\.EF\.128", t))
    if flying < wanted:
        yield f"has {flying} loads of 16 bytes in flight in its loop, wanted {wanted}"
    if "W8A8" in m[1]:
        dots = sum(1 for t in body if t.startswith("IDP.4A"))
        if dots < wanted * 4 * rows:
            yield f"has {dots} IDP.4A in its loop, wanted {wanted * 4 * rows}"
        if conversions := sum(1 for t in body if t.startswith("I2F")):
            yield f"converts integers {conversions} times in its loop"
    if any(re.match(r"IMAD\.WIDE|IMAD\.HI", t) for t in body):
        yield "multiplies addresses in its loop"


def check_tiles(k):
    """INT8 tiles: __dp4a out of shared memory, in 16-byte reads."""
    if not k.name.startswith("groupedInt8Kernel"):
        return
    body = k.loop_with(r"IDP\.4A")
    dots = sum(1 for t in body if t.startswith("IDP.4A"))
    reads = sum(1 for t in body if re.match(r"LDS(\.U)?\.128", t))
    if dots < 512:
        yield f"has {dots} IDP.4A in its loop, wanted 512"
    if not 0 < reads <= 64:
        yield f"has {reads} LDS.128 in its loop, wanted 1 to 64"
    if k.count(r"LDG\.E\.128") < 4:
        yield "does not load its tiles 16 bytes at a time"


def check_wide(k):
    """Kernels whose time is the memory they read."""
    if re.match(r"(widenWeights|decode\w*|prefill\w*)Kernel", k.name) and "merge" not in k.name.lower():
        if not k.count(r"LDG\.E(\.\w+)*\.128"):
            yield "has no load of 16 bytes"


def check(kernels):
    problems = [f"sm_{k.arch} {k.name}: {text}" for k in kernels
                for promise in (check_local, check_gemv, check_tiles, check_wide)
                for text in promise(k)]
    # A renamed kernel must not slip through.
    for name in ("gemvKernel", "groupedInt8Kernel", "widenWeightsKernel"):
        if not any(k.name.startswith(name) for k in kernels):
            problems.append(f"{name} was not found")
    print(f"{len(kernels)} kernels of sm_{', sm_'.join(str(a) for a in sorted({k.arch for k in kernels}))}")
    for text in problems:
        print(text)
    return 1 if problems else 0


def table(kernels):
    archs = sorted({k.arch for k in kernels})
    rows = {}
    for k in kernels:
        rows.setdefault(k.name, {})[k.arch] = k
    print("# What the kernels use\n")
    print("Made by `tests/kernels/cuda_code.py table`; a test fails when a kernel uses local memory or"
          "\nloses its wide loads. Registers a thread and, after them, the share of a multiprocessor's"
          "\nwarps that fit at once; shared memory is static + dynamic; no kernel spills.\n")
    print("| kernel | threads | shared | " + " | ".join(f"sm_{a}" for a in archs) + " |")
    print("| --- | --- | --- |" + " --- |" * len(archs))
    for name, by_arch in rows.items():
        any_k = next(iter(by_arch.values()))
        shared = f"{any_k.shared}" + (f" + {any_k.dynamic()}" if any_k.dynamic() else "")
        cells = []
        for a in archs:
            k = by_arch.get(a)
            local = f", {k.stack} B local" if k and k.stack else ""
            cells.append(f"{k.registers}, {k.blocks()[1]} %{local}" if k and k.threads else "")
        print(f"| `{name}` | {any_k.threads} | {shared} | " + " | ".join(cells) + " |")
    return 0


def compile_all(nvcc, root, folder, archs):
    sources = re.findall(r"\S+\.cu", (Path(root) / "kernels/cuda/sources.cmake").read_text())
    code = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs]
    Path(folder).mkdir(parents=True, exist_ok=True)
    for source in sources:
        subprocess.run([nvcc, "-std=c++20", "-O3", "--expt-relaxed-constexpr", *code, f"-I{root}",
                        "-c", f"{root}/kernels/cuda/{source}", "-o", f"{folder}/{source}.o"],
                       check=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", help="folder for cuobjdump and nvdisasm where PATH has none")
    parser.add_argument("action", choices=["check", "table", "compile"])
    parser.add_argument("arguments", nargs="+")
    options = parser.parse_args()
    if options.action == "compile":
        nvcc, root, folder, *archs = options.arguments
        return compile_all(nvcc, root, folder, archs)
    objects = [o for o in options.arguments if re.search(r"\.cu\.o$", o)]
    if not objects:
        print("No objects of .cu files were given")
        return 1
    program, found = find_tools(options.tools)
    if not program:
        print(f"SKIPPED: {found}")
        return SKIPPED
    kernels = read(objects, program, found)
    return check(kernels) if options.action == "check" else table(kernels)


if __name__ == "__main__":
    sys.exit(main())
