#!/usr/bin/env python3
"""Reading a dump: ours beside XLA's own HLO parser and MLIR's own parser, on the same file in the same run.

    readers.py GSPMD FILES...     .hlo, .mlir, .gz

Ours is `load` (read, resolve, verify, look for what was partitioned); theirs is the parse call alone, in
the Python of an installed jaxlib (below GSPMD_ORACLE_VENV, default ~/.cache/gspmd-oracle; without one this
says so and ends). Best of five each. A line a file: size, ours, theirs, ratio.
"""
import gzip
import os
import pathlib
import re
import subprocess
import sys
import tempfile

THEIRS = r"""
import sys, time
from jax._src.interpreters.mlir import make_ir_context
from jax._src.lib import xla_client
from jax._src.lib.mlir import ir
try:
    from jaxlib import _hlo as xla
except ImportError:
    xla = xla_client._xla
for path in sys.argv[1:]:
    text, best = open(path).read(), 1e9
    for _ in range(5):
        start = time.perf_counter()
        if path.endswith(".mlir"):
            context = make_ir_context()
            start = time.perf_counter()
            module = ir.Module.parse(text, context)
        else:
            module = xla.hlo_module_from_text(text)
        best = min(best, time.perf_counter() - start)
        del module
    print(path, best * 1e3, flush=True)
"""


def venv():
    base = pathlib.Path(os.environ.get("GSPMD_ORACLE_VENV", "~/.cache/gspmd-oracle")).expanduser()
    for name in ("now", "jaxlib"):
        python = base / name / "bin" / "python"
        if python.exists():
            return python
    return None


def unpacked(path, folder):
    if path.suffix != ".gz":
        return path
    out = folder / path.stem
    out.write_bytes(gzip.decompress(path.read_bytes()))
    return out


def main():
    gspmd, files = sys.argv[1], [pathlib.Path(f) for f in sys.argv[2:]]
    python = venv()
    if python is None or not files:
        print("readers: no jaxlib is installed to compare with: skipped")
        return
    with tempfile.TemporaryDirectory() as work:
        files = [unpacked(f, pathlib.Path(work)) for f in files]
        theirs = {}
        for line in subprocess.run([python, "-c", THEIRS, *map(str, files)], capture_output=True, text=True,
                                   env=dict(os.environ, JAX_PLATFORMS="cpu")).stdout.splitlines():
            path, ms = line.rsplit(" ", 1)
            theirs[path] = float(ms)
        print(f"{'file':<44} {'MB':>6} {'ours ms':>9} {'theirs ms':>10} {'ratio':>6}")
        worst = 1e9
        for f in files:
            script = "; ".join([f"time load '{f}'"] * 5)
            said = subprocess.run([gspmd, "-q", "-n", "-c", script], capture_output=True, text=True)
            ours = min((float(x) for x in re.findall(r"note: ([\d.]+) ms", said.stderr + said.stdout)), default=None)
            if ours is None or str(f) not in theirs:
                print(f"{f.name:<44} not read by {'us' if ours is None else 'them'}")
                continue
            ratio = theirs[str(f)] / ours
            worst = min(worst, ratio)
            print(f"{f.name:<44} {f.stat().st_size / 1e6:6.2f} {ours:9.2f} {theirs[str(f)]:10.2f} {ratio:6.1f}")
        if worst < 1e9:
            print(f"smallest ratio {worst:.1f} (bar 5)")


main()
