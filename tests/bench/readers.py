#!/usr/bin/env python3
"""Reading a dump: ours beside XLA's own HLO parser and MLIR's own parser, on the same file in the same run.

    readers.py GSPMD FILES...     .hlo, .mlir, .gz

Ours is `load` (read, resolve, verify, look for what was partitioned); theirs is the parse call alone, in
the Python of an installed jaxlib (below GSPMD_ORACLE_VENV, default ~/.cache/gspmd-oracle; without one theirs
is left out). Best of five each. A line a file: size, ours, theirs, ratio; and how much memory our process
takes at its peak for one `load`, beyond what it takes to start, in multiples of the text (which it holds).
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


def peak(gspmd, command):
    """Peak memory of a process that ran this command, in bytes: what the kernel says while it still lives."""
    child = subprocess.Popen([gspmd, "-q", "-n"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    child.stdin.write(command + "\necho ready\n")
    child.stdin.flush()
    while (line := child.stdout.readline()) and "ready" not in line:
        pass
    status = open(f"/proc/{child.pid}/status").read()
    child.communicate("quit\n")
    return int(re.search(r"VmHWM:\s*(\d+)", status).group(1)) * 1024


def main():
    gspmd, files = sys.argv[1], [pathlib.Path(f) for f in sys.argv[2:]]
    python = venv()
    if python is None:
        print("readers: no jaxlib is installed to compare with")
    with tempfile.TemporaryDirectory() as work:
        files = [unpacked(f, pathlib.Path(work)) for f in files]
        theirs = {}
        said = subprocess.run([python, "-c", THEIRS, *map(str, files)], capture_output=True, text=True,
                              env=dict(os.environ, JAX_PLATFORMS="cpu")).stdout if python else ""
        for line in said.splitlines():
            path, ms = line.rsplit(" ", 1)
            theirs[path] = float(ms)
        print(f"{'file':<44} {'MB':>6} {'ours ms':>9} {'theirs ms':>10} {'ratio':>6} {'memory':>7}")
        worst, most = 1e9, 0
        start = peak(gspmd, "echo start")
        for f in files:
            script = "; ".join([f"time load '{f}'"] * 5)
            said = subprocess.run([gspmd, "-q", "-n", "-c", script], capture_output=True, text=True)
            ours = min((float(x) for x in re.findall(r"note: ([\d.]+) ms", said.stderr + said.stdout)), default=None)
            if ours is None:
                print(f"{f.name:<44} not read by us")
                continue
            size = f.stat().st_size
            memory = (peak(gspmd, f"load '{f}'") - start) / size
            most = max(most, memory) if size > 4e6 else most
            ratio = theirs[str(f)] / ours if str(f) in theirs else None
            worst = min(worst, ratio) if ratio else worst
            said = f"{theirs[str(f)]:10.2f} {ratio:6.1f}" if ratio else f"{'-':>10} {'-':>6}"
            print(f"{f.name:<44} {size / 1e6:6.2f} {ours:9.2f} {said} {memory:6.2f}x")
        if worst < 1e9:
            print(f"smallest ratio {worst:.1f} (bar 5)")
        print(f"most memory {most:.2f} times the text, of files beyond 4 MB (bar 3)")


main()
