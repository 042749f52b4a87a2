#!/usr/bin/env python3
"""Checks the layers: ui -> app -> engine -> kernels, each may include only what stands to its right.

Usage: check_includes.py ROOT. Also checks that engine and kernels name no Qt header and that
kernels name nothing but the C++ library and processor intrinsics, and that no free function is
called toString. Each run first proves on examples that violations are found.
"""
import pathlib
import re
import sys

ALLOWED = {
    "kernels": {"kernels"},
    "engine": {"engine", "kernels"},
    "app": {"app", "engine", "kernels"},
    "ui": {"ui", "app", "engine", "kernels"},
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)
QT = re.compile(r"^(Q[A-Z]\w*|Qt\w+/.*)$")
CXX_OR_INTRINSICS = re.compile(r"^([a-z_0-9]+|(immintrin|cpuid|sys/\w+|unistd|sched|pthread|linux/\w+)\.h)$")
CUDA = re.compile(r"^(cuda_runtime|cuda_fp16|cublas_v2)\.h$")

# QCOMPARE prefers a toString beside its values' type to its own, and frees what that returns.
TO_STRING = re.compile(r"^[\w:][\w:*&<> ]*\btoString\((?!\))", re.M)


def faults_of(layer, name, text):
    """Yields one sentence for each include of `text` that `layer` may not have."""
    for kind, target in INCLUDE.findall(text):
        first = target.split("/")[0]
        if kind == '"' and first in ALLOWED and first not in ALLOWED[layer]:
            yield f"{name}: {layer} must not include {target}"
        if layer in ("kernels", "engine") and QT.match(target):
            yield f"{name}: {layer} must not include Qt ({target})"
        if layer == "engine" and CUDA.match(target) and not name.is_relative_to("engine/backend/cuda"):
            yield f"{name}: only engine/backend/cuda speaks to CUDA ({target})"
        if layer == "kernels" and name.is_relative_to("kernels/cuda") and (
                CUDA.match(target) or target == "dlfcn.h"):  # cuBLAS is loaded when it is needed
            continue
        if layer == "kernels" and kind == "<" and not CXX_OR_INTRINSICS.match(target):
            yield f"{name}: kernels use the C++ library and intrinsics alone, not {target}"
    if TO_STRING.search(text):
        yield f"{name}: a test that fails would free what this toString returns; call it nameOf"


def check(root):
    faults, files = [], 0
    for layer in ALLOWED:
        for path in sorted((root / layer).rglob("*")):
            if path.suffix not in (".h", ".cpp", ".cu", ".cuh", ".inc"):
                continue
            files += 1
            faults += faults_of(layer, path.relative_to(root), path.read_text(encoding="utf-8"))
    if files < 20:
        faults.append(f"only {files} sources found below {root}: wrong folder?")
    return faults, files


def self_test():
    bad = [("engine", '#include "app/settings.h"'), ("engine", "#include <QString>"),
           ("kernels", '#include "engine/engine.h"'), ("kernels", "#include <spdlog/spdlog.h>"),
           ("app", '#include "ui/main_window.h"'),
           ("kernels", "#include <cuda_runtime.h>"), ("engine", "#include <cuda_runtime.h>"),
           ("engine", "const char* toString(StopReason reason);")]
    good = [("ui", '#include "app/settings.h"'), ("kernels", "#include <immintrin.h>"),
            ("engine", "#include <vector>"), ("app", "  return url.toString(options);")]
    assert all(list(faults_of(layer, pathlib.Path("x"), text)) for layer, text in bad)
    assert not any(list(faults_of(layer, pathlib.Path("x"), text)) for layer, text in good)


if __name__ == "__main__":
    self_test()
    found, count = check(pathlib.Path(sys.argv[1]))
    print("\n".join(found) if found else f"{count} sources keep the layers")
    sys.exit(1 if found else 0)
