#!/usr/bin/env python3
"""From text to numbers: ours against XLA's, in one run on the same machine.

    text_to_numbers.py GSPMD SHARED [FILE...]

For each runnable model: the time of `gspmd -q -n -c run FILE`, a whole process that loads, partitions,
makes inputs and runs on emulated devices, beside the time that XLA takes in a process that is warm to
partition the same text, compile it and run it once on as many CPU devices. The best of three each.
Ends with the geometric mean of XLA's time over ours, and lists what is slower here.
"""
import glob
import math
import os
import subprocess
import sys
import time

if len(sys.argv) < 3:
    sys.exit(__doc__.strip())
GSPMD, SHARED = sys.argv[1:3]
sys.path.insert(0, os.path.join(SHARED, "oracle"))
try:
    import oracle
except ImportError:
    sys.exit(f"no oracle at {SHARED}/oracle: nothing to compare with")
oracle.enter_environment()
ROUNDS = 3


def ours(path):
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        done = subprocess.run([GSPMD, "-q", "-n", "-c", "run", path], capture_output=True, text=True)
        best = min(best, time.perf_counter() - start)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["failed"])[0])
    return best


def xlas(xla, text):
    """Partition, compile, run; cutting the inputs is not counted."""
    n = oracle.device_count(text)
    best = math.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        program = xla.partition(text, n, **oracle.header_flags(text))
        spent = time.perf_counter() - start
        leaves = [leaf for p in program["parameters"] for leaf in oracle.leaves_with_shardings(p)]
        shards = [[] for _ in range(n)]
        for index, (shape, sharding) in enumerate(leaves):
            (leaf,) = oracle.shape_leaves(shape) if isinstance(shape, str) else [shape]
            for device, piece in enumerate(oracle.cut(oracle.make_array(leaf, 1, index), sharding, n, False)):
                shards[device].append(piece)
        data = b"".join(oracle.join_bytes(s) for s in shards)
        start = time.perf_counter()
        xla.ask("execute", program["text"], data, n=n)
        best = min(best, spent + time.perf_counter() - start)
    return best


def main():
    files = sys.argv[3:] or sorted(glob.glob(os.path.join(SHARED, "inputs", "*_small.hlo*")))
    logs, slower, skipped = [], [], []
    print(f"{'module':40} {'ours':>10} {'XLA':>10}  times faster")
    with oracle.Xla(devices=8) as xla:
        for path in files:
            name = os.path.basename(path).split(".")[0]
            try:
                text = oracle.read_module(path)
                a, b = ours(path), xlas(xla, text)
            except (oracle.XlaError, RuntimeError, ValueError) as e:
                skipped.append(f"{name}: {str(e).splitlines()[0][:100]}")
                continue
            logs.append(math.log(b / a))
            if b < a:
                slower.append(name)
            print(f"{name:40} {a * 1e3:7.1f} ms {b * 1e3:7.1f} ms  {b / a:6.1f}", flush=True)
    for line in skipped:
        print("not compared:", line)
    if not logs:
        sys.exit("nothing was compared")
    print(f"{len(logs)} modules: {math.exp(sum(logs) / len(logs)):.1f} times faster (geometric mean, bar 5); "
          f"{len(slower)} slower{': ' + ', '.join(slower) if slower else ''}; {len(skipped)} not compared")


main()
