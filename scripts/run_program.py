#!/usr/bin/env python3
"""Runs on JAX's devices what `export program FILE` wrote, on global arrays.

    python3 scripts/run_program.py PROGRAM.hlo [--inputs DIR] [--outputs DIR]

The file is what one of N devices runs, and its header tells how inputs and outputs are cut. DIR/0.npy, 1.npy, ...
are global arrays, one a leaf of the parameters or outputs, as in gspmd's own `run inputs=DIR outputs=DIR`. Inputs
that are missing are made up: small integers, by numpy from --seed. Needs jax (tried: 0.4.38, 0.10.2) and numpy.

XLA compiles a program of several partitions only through its own partitioner, which has nothing left to do here.
So the N devices run as N replicas of one partition: partition ids become replica ids, collectives lose their
channels. Device k of the file is the k-th device of JAX either way.
"""
import argparse
import json
import os
import pathlib
import re
import sys

import numpy as np

# Quoted text, the attributes to drop (they speak of an unpartitioned program, or of its source), and braces.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|, (?:sharding|metadata)=\{|[{}]')
COLLECTIVE = re.compile(r" (all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute"
                        r"|collective-broadcast)(?:-start)?\(")
REDUCING = ("all-reduce", "all-gather", "reduce-scatter")  # those whose groups can be flattened ids


class Refused(Exception):
    """What the user is told instead of a result."""


def split_outside(text, separator):
    """The pieces of text between separators that are in no braces or brackets."""
    pieces, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "{[(") - (char in "}])")
        if char == separator and depth == 0:
            pieces.append(text[start:at].strip())
            start = at + 1
    return pieces + [text[start:].strip()]


class Sharding:
    """How one array lies on the devices: a grid of tiles, each with the devices that hold it."""

    def __init__(self, text, rank, devices):
        self.text, self.tiles, self.place = text, [1] * rank, {}
        words = text.strip("{} ")
        if "unreduced" in words:
            raise Refused(f"{text}: a sum still owed cannot be fed or joined")
        grid = re.match(r"devices=\[([\d,]+)\](?:<=\[([\d,]+)\](?:T\(([\d,]+)\))?|([\d,]+))", words)
        if grid:
            self.read_grid(grid, rank, devices)
            return
        if not re.match(r"replicated|manual|maximal", words):
            raise Refused(f"{text}: not a sharding that this script knows")
        one = re.search(r"device=(\d+)", words)
        whole = (0,) * rank
        self.place = dict.fromkeys(range(devices), whole)
        self.owner = {whole: int(one.group(1)) if one else 0}

    def read_grid(self, grid, rank, devices):
        def numbers(k):
            return [int(n) for n in grid.group(k).split(",")]
        dims = numbers(1)
        if grid.group(4):
            ids = np.array(numbers(4))
        else:
            ids = np.arange(np.prod(numbers(2))).reshape(numbers(2))
            ids = ids.transpose(numbers(3)) if grid.group(3) else ids
        if sorted(ids.flat) != list(range(devices)) or np.prod(dims) != devices or len(dims) < rank:
            raise Refused(f"{self.text}: not {devices} devices in {rank} dimensions")
        self.tiles, self.owner = dims[:rank], {}
        for index, device in np.ndenumerate(ids.reshape(dims)):
            self.place[int(device)] = index[:rank]
            self.owner.setdefault(index[:rank], int(device))

    def padded(self, local):
        return tuple(n * t for n, t in zip(local, self.tiles))

    def fits(self, shape, local):
        return len(shape) == len(local) and all(
            -(-n // t) == part for n, t, part in zip(shape, self.tiles, local))

    def cut(self, array, local, device):
        """The device's piece; what lies beyond the array is zero."""
        start = [k * n for k, n in zip(self.place[device], local)]
        have = array[tuple(slice(s, s + n) for s, n in zip(start, local))]
        piece = np.zeros(local, array.dtype)
        piece[tuple(slice(0, n) for n in have.shape)] = have
        return piece

    def join(self, pieces, shape):
        """The global array from all devices' pieces, without its padding."""
        local = pieces[0].shape
        whole = np.zeros(self.padded(local), pieces[0].dtype)
        for index, device in self.owner.items():
            whole[tuple(slice(k * n, k * n + n) for k, n in zip(index, local))] = pieces[device]
        return whole[tuple(slice(0, n) for n in shape)]


class Program:
    """The file: its header's boundary, and its body as XLA is to compile it."""

    def __init__(self, text):
        head = re.search(r"^HloModule ([^\s,]+).*$", text, re.M)
        if not head:
            raise Refused("no HLO text: a line HloModule NAME is missing")
        partitions = re.search(r"\bnum_partitions=(\d+)", head.group(0))
        self.devices = int(partitions.group(1)) if partitions else 1
        self.parameters = self.boundary(head.group(0), "parameters", ";")
        self.outputs = self.boundary(head.group(0), "outputs", ";")
        self.shapes = self.boundary(head.group(0), "output_shapes", ";")
        body = "\n".join(self.instruction(line) for line in self.bare(text[head.end():]).split("\n"))
        body = self.flat(body)
        self.text = f"HloModule {head.group(1)}, replica_count={self.devices}\n{body}"

    @staticmethod
    def boundary(head, name, separator):
        found = re.search(rf'gspmd\.{name}="([^"]*)"|gspmd\.{name}=((?:\{{[^"]*?\}})+)(?=,gspmd|\}}|,)', head)
        text = re.sub(r"/\*.*?\*/", "", found.group(1) or found.group(2) or "") if found else None
        return split_outside(text, separator) if found else None

    @staticmethod
    def bare(text):
        """The text without shardings and metadata."""
        out, start, depth = [], 0, 0
        for token in TOKEN.finditer(text):
            word = token.group(0)
            if word[0] == '"':
                continue
            if depth:
                depth += 1 if word[-1] == "{" else -1
                start = token.end()
            elif word[0] == ",":
                out.append(text[start:token.start()])
                depth = 1
        return "".join(out) + text[start:]

    @staticmethod
    def instruction(line):
        """The line for replicas in the place of partitions."""
        line = line.replace(" replica-id()", " constant(0)").replace(" partition-id()", " replica-id()")
        op = COLLECTIVE.search(line)
        if " custom-call(" in line and Program.lost_layouts(line):
            raise Refused(f"a custom call whose results' layouts are not in the file: {line.strip()[:120]}")
        if not op:
            return line
        if "channel_id=" not in line:
            raise Refused(f"a collective over replicas, of which a partitioned program has one: {line.strip()}")
        if op.group(1) in REDUCING and "use_global_device_ids=true" not in line:  # over every partition
            line = re.sub(r"replica_groups=\{(?:[^{}]|\{[^{}]*\})*\}", "replica_groups={}", line)
        return re.sub(r", (?:channel_id=\d+|use_global_device_ids=true)", "", line)

    @staticmethod
    def lost_layouts(line):
        """The operands' layouts are the callee's own (LAPACK's columns), and those of the results are not told."""
        given = re.search(r"operand_layout_constraints=\{((?:[^{}]|\{[^{}]*\})*)\}", line)
        layouts = re.findall(r"\{([\d,]+)\}", given.group(1)) if given else []
        orders = [[int(n) for n in layout.split(",")] for layout in layouts]
        return any(o != sorted(o, reverse=True) for o in orders) and "]{" not in line.split(" custom-call(")[0]


    def flat(self, body):
        """The body without parameters that are tuples, which not every JAX can feed: one a leaf, made a tuple again.
        Their shardings become those of the leaves."""
        start = re.search(r"^ENTRY ", body, re.M)
        entry = body[start.start():] if start else ""
        form = re.compile(r"^( +)(%?[\w.\-]+) = (.*) parameter\((\d+)\).*$", re.M)
        found = sorted(form.finditer(entry), key=lambda m: int(m.group(4)))
        if not any(m.group(3)[0] == "(" for m in found):
            return body
        if self.parameters is None or len(self.parameters) != len(found):
            raise Refused("the header does not say how each parameter is cut")
        lines, shardings = {}, []
        for m in found:
            space, name, shape, number = m.groups()
            types = split_outside(re.sub(r"/\*.*?\*/", "", shape)[1:-1], ",") if shape[0] == "(" else [shape]
            if any(t[:1] in ("(", "") for t in types):
                raise Refused(f"parameter {number}: a tuple in a tuple, or an empty one")
            text = self.parameters[int(number)]
            each = split_outside(text[1:-1], ",") if text.startswith("{{") else [text] * len(types)
            names = [f"{name}.leaf{k}" for k in range(len(types))] if shape[0] == "(" else [name]
            made = [f"{space}{n} = {t} parameter({len(shardings) + k})" for k, (n, t) in enumerate(zip(names, types))]
            if shape[0] == "(":
                made.append(f"{space}{name} = {shape} tuple({', '.join(names)})")
            lines[number], shardings = "\n".join(made), shardings + each
        self.parameters = shardings
        return body[:start.start()] + form.sub(lambda m: lines[m.group(4)], entry)


def leaves(shape):
    return [leaf for part in shape.tuple_shapes() for leaf in leaves(part)] if shape.is_tuple() else [shape]


def boundary_leaves(texts, shapes, devices):
    """A sharding for each leaf: an output that is a tuple has a tuple of them, or one for all."""
    if texts is None:
        raise Refused("the header has no gspmd.parameters and gspmd.outputs: write the file with `export program`")
    if len(texts) != len(shapes):
        raise Refused(f"the header has {len(texts)} shardings for {len(shapes)} parameters or outputs")
    found = []
    for text, shape in zip(texts, shapes):
        parts = leaves(shape)
        each = split_outside(text[1:-1], ",") if text.startswith("{{") else [text] * len(parts)
        if len(each) != len(parts):
            raise Refused(f"{text}: {len(each)} shardings for {len(parts)} arrays")
        found += [Sharding(t, len(s.dimensions()), devices) for t, s in zip(each, parts)]
    return found


class Machine:
    """JAX's devices, and jaxlib's way from HLO text to an executable (its names moved between releases)."""

    def __init__(self, devices, platform):
        flags = os.environ.get("XLA_FLAGS", "")
        if "xla_force_host_platform_device_count" not in flags:  # only CPU heeds it
            os.environ["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={devices}".strip()
        if platform:
            os.environ["JAX_PLATFORMS"] = platform
        import jax
        from jax._src.lib import xla_client
        jax.config.update("jax_enable_x64", True)
        self.jax, self.xla = jax, xla_client
        try:
            from jaxlib import _hlo as hlo, _jax
            self.to_mlir = _jax.mlir.xla_computation_to_mlir_module
        except ImportError:
            hlo = xla_client._xla
            self.to_mlir = hlo.mlir.xla_computation_to_mlir_module
        self.parse, self.computation = hlo.hlo_module_from_text, hlo.XlaComputation
        self.devices = self.pick(devices)

    def pick(self, n):
        found = self.jax.devices()
        if len(found) < n and found[0].platform != "cpu":
            print(f"{len(found)} {found[0].platform} devices of {n}: on CPU", file=sys.stderr)
            found = self.jax.devices("cpu")
        if len(found) < n:
            raise Refused(f"{len(found)} {found[0].platform} devices, the program wants {n}")
        return found[:n]

    def read(self, text):
        return self.computation(self.parse(text).as_serialized_hlo_module_proto())

    def compile(self, computation):
        n = len(self.devices)
        options = self.xla.CompileOptions()
        options.num_replicas, options.num_partitions = n, 1
        build = options.executable_build_options
        build.num_replicas, build.num_partitions = n, 1
        ids = np.array([d.id for d in self.devices]).reshape(n, 1)
        build.device_assignment = self.xla.DeviceAssignment.create(ids)
        client, module = self.devices[0].client, self.to_mlir(computation)
        if hasattr(client, "compile_and_load"):
            return client.compile_and_load(module, self.xla.DeviceList(tuple(self.devices)), options)
        return client.compile(module, options)

    def run(self, executable, pieces):
        """pieces[leaf][device] -> the outputs' pieces[leaf][device]"""
        # To JAX each is an array that all devices hold, which it does not check: the buffers differ.
        everywhere = self.jax.sharding.NamedSharding(self.jax.sharding.Mesh(np.array(self.devices), ("device",)),
                                                     self.jax.sharding.PartitionSpec())
        put = [self.jax.make_array_from_single_device_arrays(
            leaf[0].shape, everywhere, [self.jax.device_put(p, d) for p, d in zip(leaf, self.devices)])
            for leaf in pieces]
        out = executable.execute_sharded(put).disassemble_into_single_device_arrays()
        order = [d.id for d in self.devices]
        return [[np.asarray(a) for a in sorted(leaf, key=lambda a: order.index(next(iter(a.devices())).id))]
                for leaf in out]


def typed(array, dtype, path):
    """The file's elements as the program's type: raw bytes as they lie, floats rounded, 0/1 and narrow integers."""
    if array.dtype == dtype:
        return array
    if array.dtype.kind == "V" and array.dtype.itemsize == dtype.itemsize:
        return array.view(dtype)
    narrow = dtype.itemsize == 1 and dtype.kind == "V"  # NumPy calls the types it does not know V
    floats = array.dtype.kind == "f" and (dtype.kind == "f" or "float" in dtype.name)
    whole = array.dtype.kind in "biu" and (narrow and "int" in dtype.name or "b" in (array.dtype.kind, dtype.kind))
    if not floats and not (whole and "float" not in dtype.name):
        raise Refused(f"{path}: elements are {array.dtype}, the program wants {dtype}")
    return array.astype(dtype)


def made_up(shape, dtype, seed):
    values = np.random.default_rng(seed).integers(0 if dtype.kind in "bu" else -4, 2 if dtype.kind == "b" else 5, shape)
    return np.asarray(values).astype(dtype)


def take_inputs(options, shardings, shapes):
    """The global arrays, one a leaf of the parameters."""
    arrays = []
    for k, (sharding, shape) in enumerate(zip(shardings, shapes)):
        local, dtype = shape.dimensions(), np.dtype(shape.numpy_dtype())
        path = options.inputs / f"{k}.npy" if options.inputs else None
        if path and path.exists():
            array = typed(np.load(path), dtype, path)
        else:
            array = made_up(sharding.padded(local), dtype, [options.seed, k])
            print(f"input {k}: made up, {dtype}{list(array.shape)}", file=sys.stderr)
        if not sharding.fits(array.shape, local):
            raise Refused(f"input {k}: {list(array.shape)} cut by {sharding.text} is not {list(local)} a device")
        arrays.append(array)
    return arrays


def output_shapes(options, program, shardings, shapes, padded):
    """Global shapes: told by the header or by `program --json`; else as if no output had padding."""
    texts = program.shapes
    if options.boundary:
        lines = [json.loads(x) for x in options.boundary.read_text().splitlines() if x.startswith("{")]
        replies = [x for x in lines if x.get("command") == "program" and "outputs" in x]
        if not replies:
            raise Refused(f"{options.boundary}: no reply of `program` to gspmd --json")
        texts = [output["global"] for output in replies[-1]["outputs"]]
    if texts is None:
        if padded:
            print("an input has padding, and outputs keep theirs: --boundary FILE tells their shapes", file=sys.stderr)
        return [s.padded(x.dimensions()) for s, x in zip(shardings, shapes)]
    found = [tuple(int(n) for n in re.findall(r"\d+", t[t.index("["):t.index("]")])) for t in texts]
    if len(found) != len(shapes) or not all(s.fits(g, x.dimensions()) for s, g, x in zip(shardings, found, shapes)):
        raise Refused("the outputs' global shapes are not those of this program")
    return found


def run(options):
    program = Program(options.program.read_text())
    machine = Machine(program.devices, options.platform)
    computation = machine.read(program.text)
    form = computation.program_shape()
    parameters, result = form.parameter_shapes(), form.result_shape()
    cuts = boundary_leaves(program.parameters, parameters, program.devices) if parameters else []
    joins, results = boundary_leaves(program.outputs, [result], program.devices), leaves(result)
    arrays = take_inputs(options, cuts, parameters)
    padded = any(c.padded(s.dimensions()) != a.shape for c, s, a in zip(cuts, parameters, arrays))
    globals_ = output_shapes(options, program, joins, results, padded)
    pieces = [[c.cut(a, p.dimensions(), device) for device in range(program.devices)]
              for c, p, a in zip(cuts, parameters, arrays)]
    out = machine.run(machine.compile(computation), pieces)
    print(f"ran on {program.devices} {machine.devices[0].platform} devices: {len(out)} output{'s'[len(out) == 1:]}")
    for k, (sharding, leaf, shape) in enumerate(zip(joins, out, globals_)):
        array = sharding.join(leaf, shape)
        print(f"  {k}  {array.dtype}{list(array.shape)}")
        if options.outputs:
            options.outputs.mkdir(parents=True, exist_ok=True)
            np.save(options.outputs / f"{k}.npy", array)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path, help="what `export program FILE` wrote")
    parser.add_argument("--inputs", type=pathlib.Path, metavar="DIR", help="global arrays to read")
    parser.add_argument("--outputs", type=pathlib.Path, metavar="DIR", help="where global arrays go")
    parser.add_argument("--boundary", type=pathlib.Path, metavar="FILE",
                        help="what gspmd --json says to `program`: the outputs' global shapes, where they have padding")
    parser.add_argument("--platform", help="cpu, gpu, tpu: JAX's choice otherwise, CPU where that has too few devices")
    parser.add_argument("--seed", type=int, default=0, help="for made-up inputs")
    try:
        run(parser.parse_args())
    except (Refused, OSError, ValueError) as why:  # numpy's words for a file that is no array are ValueErrors
        sys.exit(f"run_program.py: {why}")
    except RuntimeError as why:
        sys.exit(f"run_program.py: XLA: {str(why).splitlines()[0]}")


if __name__ == "__main__":
    main()
