#!/usr/bin/env python3
"""Processor time of a steady run, ours beside XLA CPU's, on the same machine.

    steady.py BENCH_STEADY SHARED [FILE...]

Both sides have the program ready, its inputs cut and placed: only running it is counted, the time of all
threads together, the mean of some runs. XLA is the jaxlib of the oracle's environment; it partitions and
compiles the same text with all its passes. Ends with the median of ours over XLA's (bar: 2).
"""
import glob
import os
import subprocess
import sys
import time


def xla_side(path):
    """In jaxlib's own Python: milliseconds, or a reason."""
    import gzip
    import re
    raw = gzip.open(path, "rt").read() if path.endswith(".gz") else open(path).read()
    n = int((re.search(r"num_partitions=(\d+)", raw[:20000]) or [0, "1"])[1])
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={n}"
    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax
    import numpy as np
    from jax._src.lib import xla_client
    jax.config.update("jax_enable_x64", True)
    xla = xla_client._xla
    devices = jax.devices("cpu")
    client = devices[0].client
    module = xla.hlo_module_from_text(raw)
    text = xla.mlir.xla_computation_to_mlir_module(xla.XlaComputation(module.as_serialized_hlo_module_proto()))
    options = xla_client.CompileOptions()
    options.num_partitions, options.num_replicas = n, 1
    build = options.executable_build_options
    build.num_partitions, build.use_spmd_partitioning = n, n > 1

    def flags(key):
        found = re.search(key + r"=\{([a-z,]*)\}", raw[:20000])
        return [w == "true" for w in found[1].split(",")] if found else [False]
    build.allow_spmd_sharding_propagation_to_output = flags("allow_spmd_sharding_propagation_to_output")
    build.allow_spmd_sharding_propagation_to_parameters = flags("allow_spmd_sharding_propagation_to_parameters")
    build.device_assignment = xla_client.DeviceAssignment.create(np.arange(n).reshape(1, n))
    executable = client.compile(text, options)
    shardings = executable.get_parameter_shardings() if n > 1 else None
    shapes = xla.XlaComputation(module.as_serialized_hlo_module_proto()).program_shape().parameter_shapes()
    rng = np.random.default_rng(1)
    arguments = []
    for k, shape in enumerate(shapes):
        dims, dtype = shape.dimensions(), shape.numpy_dtype()
        value = rng.integers(0, 4, dims).astype(dtype) if dtype.kind in "iub" else \
            rng.uniform(0.125, 1, dims).astype(dtype)
        if n > 1:
            sharding = jax.sharding.GSPMDSharding(tuple(devices), xla.HloSharding.from_proto(shardings[k])
                                                  if not isinstance(shardings[k], xla.HloSharding) else shardings[k])
        else:
            sharding = jax.sharding.SingleDeviceSharding(devices[0])
        arguments.append(jax.make_array_from_callback(tuple(dims), sharding, lambda i, v=np.asarray(value): v[i]))
    spent, runs = 0.0, 0
    for k in range(42):
        start = time.process_time()
        results = executable.execute_sharded(arguments)
        for shards in results.disassemble_into_single_device_arrays():
            for shard in shards:
                shard.block_until_ready()
        if k >= 2:  # what a thread does after a run counts for the next one
            spent, runs = spent + time.process_time() - start, runs + 1
        if k >= 5 and spent > 0.4:
            break
    print(f"{1e3 * spent / runs:.4f}")


def main():
    bench, shared = sys.argv[1:3]
    python = os.path.join(os.environ.get("GSPMD_ORACLE_VENV", os.path.expanduser("~/.cache/gspmd-oracle")),
                          "jaxlib", "bin", "python")
    if not os.path.exists(python):
        sys.exit(f"no jaxlib at {python}: nothing to compare with")
    files = sys.argv[3:] or sorted(glob.glob(os.path.join(shared, "inputs", "*_small.hlo")) +
                                   glob.glob(os.path.join(shared, "inputs", "*_small.hlo.gz")))
    files = [f for f in files if ".after_spmd" not in f and ".sdy" not in f and ".optimized" not in f]
    rows, skipped = [], []
    print(f"{'module':40} {'ours':>12} {'XLA':>12}  ours / XLA, processor time of a steady run")
    for path in files:
        name = os.path.basename(path).split(".")[0]
        words = []
        for command in ([bench, path], [python, os.path.abspath(__file__), "--xla", path]):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=120)
                words.append((done.stdout.split() or ["nothing"])[-1] if done.returncode == 0 else
                             (done.stderr.strip().splitlines() or ["died"])[-1][:90])
            except subprocess.TimeoutExpired:
                words.append("takes over 120 s")
        try:
            ours, xla = map(float, words)
        except ValueError:
            skipped.append(f"{name}: {' | '.join(words)}")
            continue
        rows.append((ours / xla, name))
        print(f"{name:40} {ours:9.3f} ms {xla:9.3f} ms  {ours / xla:6.2f}", flush=True)
    for line in skipped:
        print("not compared:", line)
    if not rows:
        sys.exit("nothing was compared")
    rows.sort()
    middle = (rows[(len(rows) - 1) // 2][0] + rows[len(rows) // 2][0]) / 2
    print(f"{len(rows)} modules: median {middle:.2f} of XLA's processor time (bar 2); worst: "
          + ", ".join(f"{name} {ratio:.1f}" for ratio, name in rows[:-6:-1]))


if len(sys.argv) == 3 and sys.argv[1] == "--xla":
    xla_side(sys.argv[2])
elif len(sys.argv) < 3:
    sys.exit(__doc__.strip())
else:
    main()
