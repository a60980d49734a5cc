#!/usr/bin/env python3
"""Kernels against XLA's numbers: a table of operation by element type, on one device.

    op_dtype.py GSPMD SHARED [OPERATION...]

Each cell is a module of its own, run by XLA's CPU and by ours on the same 96 values: the ends of the type,
zeros, infinities, NaN, halves and plain numbers. Operations that this XLA does not know are held to NumPy's
numbers, for the types that NumPy has. Types of a narrow width are made by a conversion
inside, from f32, s32 or u32, and the result goes back the same way. A cell says

    =    every bit agrees (of two NaNs, that both are)
    n    the largest difference in units in the last place of the type, within the operation's bound
    !n   beyond it            E  ours refuses what XLA runs
    .    XLA has no such operation, or does not run it

Ends with "N passed, N failed": a failure is a cell with ! or E, or a row or column without any number.
"""
import os
import subprocess
import sys
import tempfile

if len(sys.argv) < 3:
    sys.exit(__doc__.strip())
GSPMD, SHARED = sys.argv[1:3]
sys.path.insert(0, os.path.join(SHARED, "oracle"))
try:
    import oracle
except ImportError:
    print(f"no oracle at {SHARED}/oracle: nothing to compare with")
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)
oracle.enter_environment()
import numpy as np  # noqa: E402

N = 96
FLOATS = ["f64", "f32", "f16", "bf16", "f8e5m2", "f8e4m3fn", "f8e4m3", "f8e3m4", "f8e4m3b11fnuz", "f8e5m2fnuz",
          "f8e4m3fnuz", "f4e2m1fn", "f8e8m0fnu"]
INTEGERS = ["s64", "s32", "s16", "s8", "s4", "s2", "u64", "u32", "u16", "u8", "u4", "u2"]
COMPLEX = ["c128", "c64"]
TYPES = FLOATS + INTEGERS + COMPLEX + ["pred"]
DIGITS = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8, "f8e5m2": 3, "f8e4m3fn": 4, "f8e4m3": 4, "f8e3m4": 5,
          "f8e4m3b11fnuz": 4, "f8e5m2fnuz": 3, "f8e4m3fnuz": 4, "f4e2m1fn": 2, "f8e8m0fnu": 1, "c128": 53, "c64": 24}
CARRIERS = {"f64": "f64", "c128": "f64", "c64": "f32", "s64": "s64", "u64": "u64", "pred": "pred"}

UNARY = ("abs negate sign ceil floor round-nearest-afz round-nearest-even sqrt rsqrt cbrt exponential "
         "exponential-minus-one log log-plus-one logistic tanh tan sine cosine erf acos acosh asin asinh atanh cosh sinh "
         "not popcnt count-leading-zeros is-finite real imag copy").split()
BINARY = ("add subtract multiply divide remainder power maximum minimum atan2 and or xor shift-left "
          "shift-right-arithmetic shift-right-logical complex").split()
DIRECTIONS = ["EQ", "LT"]
# How far two good implementations may be apart: units in the last place, of f32 where the type is narrower.
BOUNDS = {"tan": 16, "power": 16, "acosh": 16, "asinh": 16, "atanh": 16, "sinh": 16, "cosh": 16, "asin": 16, "acos": 16,
          "atan2": 8, "log-plus-one": 24, "exponential-minus-one": 8, "erf": 8, "logistic": 8, "cbrt": 16, "sine": 8,
          "cosine": 8, "exponential": 4, "log": 4, "tanh": 8, "rsqrt": 4, "sqrt": 1, "dot": 16, "reduce-add": 16,
          "reduce-window": 16, "convolution": 16, "fft": 256, "reduce-multiply": 16, "cholesky": 64,
          "triangular-solve": 256, "scatter": 16, "batch-norm": 64}
COMPLEX_BOUND = 64


def carrier(t):
    return CARRIERS.get(t) or ("f32" if t[0] in "fb" else "s32" if t[0] == "s" else "u32")


class Module:
    """Parameters are N numbers of the carrier; value(k) is one of them in the type, of a shape of N elements."""

    def __init__(self, t):
        self.t, self.lines, self.parameters, self.names, self.regions = t, [], [], 0, []

    def add(self, shape, text):
        self.names += 1
        self.lines.append(f"  v{self.names} = {shape} {text}")
        return f"v{self.names}"

    def parameter(self, seed):
        c = carrier(self.t)
        self.parameters.append(values(self.t, c, seed))
        return self.add(f"{c}[{N}]", f"parameter({len(self.parameters) - 1})")

    def barrier(self, v, shape):
        """XLA drops a rounding between two conversions that it sees."""
        return self.add(shape, f"opt-barrier({v})")

    def value(self, seed, dims=f"[{N}]"):
        c = carrier(self.t)
        if self.t in COMPLEX:
            v = self.add(f"{self.t}[{N}]", f"complex({self.parameter(seed)}, {self.parameter(seed + 50)})")
        elif c == self.t:
            v = self.parameter(seed)
        else:
            v = self.barrier(self.add(f"{self.t}[{N}]", f"convert({self.parameter(seed)})"), f"{self.t}[{N}]")
        return v if dims == f"[{N}]" else self.add(self.t + dims, f"reshape({v})")

    def text(self, v, shape):
        """v of the shape, out in carriers."""
        t, dims = shape.split("[")
        dims = "[" + dims
        if t in COMPLEX:
            c = carrier(t)
            re, im = self.add(c + dims, f"real({v})"), self.add(c + dims, f"imag({v})")
            self.lines.append(f"  ROOT out = ({c}{dims}, {c}{dims}) tuple({re}, {im})")
        else:
            c = carrier(t)
            out = v if c == t else self.add(c + dims, f"convert({self.barrier(v, shape)})")
            self.lines.append(f"  ROOT out = ({c}{dims}) tuple({out})")
        return "HloModule m\n" + "".join(self.regions) + "ENTRY e {\n" + "\n".join(self.lines) + "\n}\n"


def all_values(t, c, seed):
    rng = np.random.default_rng(seed)
    kind = oracle.numpy_dtype(c)
    if c == "pred":
        return rng.integers(0, 2, N).astype(bool)
    if kind.kind in "iu":
        bits = int(t[1:])
        low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if t[0] == "s" else (0, (1 << bits) - 1)
        edges = [0, 1, low, high, high - 1, low + 1, min(high, 7), min(high, 3), max(low, -1), max(low, -3)]
        small = rng.integers(max(low, -40), min(high, 40), 50, endpoint=True, dtype=np.int64)
        wide = [low + int(rng.integers(0, 1 << 62)) % (high - low + 1) for _ in range(N - 60)]
        numbers = edges + [int(v) for v in small] + wide
        rng.shuffle(numbers)
        return np.array(numbers, dtype=object).astype(kind)
    edges = [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e-37, -1e-36, 3e38, -3e38, 448, 57344,
             6, 1e-3, 2.0 ** -24, 65504, 65520, 0.1]
    if t in COMPLEX:  # rules for infinities and NaN differ from one library to the next
        edges = [0.25, -0.25, 1, -1, 0.5, -0.5, 1.5, 2.5, -2.5] * 2 + [6, 0.125, 3, 0.1, -0.1, -6]
    plain = np.concatenate([rng.normal(size=36), rng.uniform(-1, 1, 18), rng.uniform(-20, 20, 18)])
    out = np.concatenate([np.array(edges), plain])
    rng.shuffle(out)
    if t in COMPLEX:
        out = np.clip(out, -6, 6)
    return out.astype(kind)


def no_nan(t, c, seed):
    """XLA's CPU may be built to take maxima without regard to NaN."""
    out = all_values(t, c, seed)
    if out.dtype.kind != "f":
        return out
    out = np.clip(np.where(np.isnan(out), out.dtype.type(0.75), out), -6, 6)  # no NaN when converted, too
    return np.abs(out) + out.dtype.type(0.125) if t == "f8e8m0fnu" else out


def gentle(t, c, seed):
    """Numbers whose sums and products stay exact enough to be compared."""
    rng = np.random.default_rng(seed)
    kind = oracle.numpy_dtype(c)
    if c == "pred":
        return rng.integers(0, 2, N).astype(bool)
    if kind.kind in "iu":
        return rng.integers(0 if t[0] == "u" else -1, 1, N, endpoint=True).astype(kind)
    return rng.choice([0.5, 1, 1.5, 2], N).astype(kind)


def region(m, op):
    t = m.t
    m.regions.append(f"f {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n  ROOT r = {t}[] {op}(a, b)\n}}\n")


def zero(m, v=0):
    t = m.t
    if t in COMPLEX:
        return m.add(f"{t}[]", f"constant(({v}, 0))")
    if t == "pred":
        return m.add("pred[]", f"constant({'true' if v else 'false'})")
    c = carrier(t)
    k = m.add(f"{c}[]", f"constant({v})")
    return k if c == t else m.add(f"{t}[]", f"convert({k})")


def build(op, t):
    """The module's text and its inputs; None: the type has no such operation by its definition."""
    global values
    values = no_nan if op in ("maximum", "minimum", "clamp", "logistic") else all_values
    m = Module(t)
    full = f"{t}[{N}]"
    if op in UNARY:
        v = m.value(1)
        if op == "logistic" and DIGITS.get(t, 24) < 24:  # where e^-x is no number of the type XLA has 0
            v = m.add(full, f"clamp({zero(m, -6)}, {v}, {zero(m, 6)})")
        out = "pred" if op == "is-finite" else {"c64": "f32", "c128": "f64"}.get(t, t) if op in ("abs", "real", "imag") \
            else t
        return m.text(m.add(f"{out}[{N}]", f"{op}({v})"), f"{out}[{N}]"), m.parameters
    if op in BINARY:
        out = {"f32": "c64", "f64": "c128"}.get(t) if op == "complex" else t
        if not out:
            return None
        v, w = m.value(1), m.value(2)
        return m.text(m.add(f"{out}[{N}]", f"{op}({v}, {w})"), f"{out}[{N}]"), m.parameters
    if op.startswith("compare-"):
        v, w = m.value(1), m.value(2)
        return m.text(m.add(f"pred[{N}]", f"compare({v}, {w}), direction={op[8:]}"), f"pred[{N}]"), m.parameters
    if op == "select":
        v, w = m.value(1), m.value(2)
        m.parameters.append(np.arange(N) % 3 == 0)
        p = m.add(f"pred[{N}]", f"parameter({len(m.parameters) - 1})")
        return m.text(m.add(full, f"select({p}, {v}, {w})"), full), m.parameters
    if op == "clamp":
        v, low, high = m.value(1), zero(m), zero(m, 1)
        return m.text(m.add(full, f"clamp({low}, {v}, {high})"), full), m.parameters
    if op.startswith("convert-"):
        to = op[8:]
        return m.text(m.add(f"{to}[{N}]", f"convert({m.value(1)})"), f"{to}[{N}]"), m.parameters
    if op == "reduce-precision":
        return m.text(m.add(full, f"reduce-precision({m.value(1)}), exponent_bits=4, mantissa_bits=2"), full), m.parameters
    moves = {
        "broadcast": (f"{t}[3,{N}]", "broadcast({v}), dimensions={{1}}"),
        "reverse": (full, "reverse({v}), dimensions={{0}}"),
        "slice": (f"{t}[30]", "slice({v}), slice={{[3:93:3]}}"),
        "concatenate": (f"{t}[{2 * N}]", "concatenate({v}, {v}), dimensions={{0}}"),
    }
    if op in moves:
        shape, text = moves[op]
        v = m.value(1)
        return m.text(m.add(shape, text.format(v=v)), shape), m.parameters
    if op == "transpose":
        v = m.value(1, "[8,12]")
        return m.text(m.add(f"{t}[12,8]", f"transpose({v}), dimensions={{1,0}}"), f"{t}[12,8]"), m.parameters
    if op == "pad":
        v, z = m.value(1, "[8,12]"), zero(m, 1)
        return m.text(m.add(f"{t}[10,25]", f"pad({v}, {z}), padding=1_1x2_0_1"), f"{t}[10,25]"), m.parameters
    m_values = gentle_values(m)
    if op.startswith("reduce-") and op != "reduce-window":
        region(m, op[7:])
        v, z = m_values(1, "[12,8]"), zero(m, int(op in ("reduce-multiply", "reduce-and")))
        return m.text(m.add(f"{t}[12]", f"reduce({v}, {z}), dimensions={{1}}, to_apply=f"), f"{t}[12]"), m.parameters
    if op == "reduce-window":
        region(m, "add")
        v, z = m_values(1, "[12,8]"), zero(m)
        return m.text(m.add(f"{t}[12,8]", f"reduce-window({v}, {z}), window={{size=3x2 pad=1_1x0_1}}, to_apply=f"),
                      f"{t}[12,8]"), m.parameters
    if op == "dot":
        v, w = m_values(1, "[12,8]"), m_values(2, "[8,12]")
        return m.text(m.add(f"{t}[12,12]", f"dot({v}, {w}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"),
                      f"{t}[12,12]"), m.parameters
    if op == "convolution":
        v, w = m_values(1, "[2,24,2]"), m_values(2, "[3,2,16]")
        return m.text(m.add(f"{t}[2,24,16]", f"convolution({v}, {w}), window={{size=3 pad=1_1}}, dim_labels=b0f_0io->b0f"),
                      f"{t}[2,24,16]"), m.parameters
    if op == "sort":
        m.regions.append(f"f {{\n  a = {t}[] parameter(0)\n  b = {t}[] parameter(1)\n"
                         f"  ROOT r = pred[] compare(a, b), direction=LT{', type=TOTALORDER' if t in FLOATS else ''}\n}}\n")
        v = m.value(1)
        return m.text(m.add(full, f"sort({v}), dimensions={{0}}, to_apply=f"), full), m.parameters
    index = ", ".join(str((7 * k) % 12) for k in range(8))
    if op == "gather":
        v = m.value(1, "[12,8]")
        i = m.add("s32[8]", f"constant({{{index}}})")
        return m.text(m.add(f"{t}[8,8]", f"gather({v}, {i}), offset_dims={{1}}, collapsed_slice_dims={{0}}, "
                            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8}"), f"{t}[8,8]"), m.parameters
    if op == "scatter":
        region(m, "add")
        v, w = m_values(1, "[12,8]"), m_values(2, "[12,8]")
        u = m.add(f"{t}[8,8]", f"slice({w}), slice={{[0:8], [0:8]}}")
        i = m.add("s32[8]", f"constant({{{index}}})")
        return m.text(m.add(f"{t}[12,8]", f"scatter({v}, {i}, {u}), update_window_dims={{1}}, inserted_window_dims={{0}}, "
                            "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=f"), f"{t}[12,8]"), m.parameters
    if op == "dynamic-slice":
        v = m.value(1)
        i = m.add("s32[]", "constant(90)")
        return m.text(m.add(f"{t}[10]", f"dynamic-slice({v}, {i}), dynamic_slice_sizes={{10}}"), f"{t}[10]"), m.parameters
    if op == "dynamic-update-slice":
        v, w = m.value(1), m.value(2)
        u = m.add(f"{t}[10]", f"slice({w}), slice={{[0:10]}}")
        i = m.add("s32[]", "constant(-3)")
        return m.text(m.add(full, f"dynamic-update-slice({v}, {u}, {i})"), full), m.parameters
    if op == "iota":
        if t == "pred":
            return None
        return m.text(m.add(f"{t}[4,3]", "iota(), iota_dimension=0"), f"{t}[4,3]"), m.parameters
    if op == "fft":
        if t not in COMPLEX:
            return None
        v = m_values(1, "[6,16]")
        return m.text(m.add(f"{t}[6,16]", f"fft({v}), fft_type=FFT, fft_length={{16}}"), f"{t}[6,16]"), m.parameters
    raise ValueError(op)


def gentle_values(m):
    def make(seed, dims):
        global values
        was, values = values, gentle
        try:
            return m.value(seed, dims)
        finally:
            values = was
    return make


def ordered(bits):
    """Floats as integers in their order, so that neighbours differ by one."""
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


def distance(got, want, t, op):
    """Units in the last place of t between two arrays of carriers; inf where one is NaN or a bit is wrong."""
    if want.dtype.kind != "f":
        return 0.0 if np.array_equal(got, want) else np.inf
    nan = np.isnan(want)
    if not np.array_equal(nan, np.isnan(got)):
        return np.inf
    got, want = got[~nan], want[~nan]
    if want.dtype == np.float32:  # XLA's CPU takes subnormals for zeros
        got, want = (np.where(np.abs(x) < 2.0 ** -126, np.copysign(np.float32(0), x), x) for x in (got, want))
    if np.array_equal(got, want) and np.array_equal(np.signbit(got), np.signbit(want)):
        return 0.0
    integer = np.int64 if want.dtype.itemsize == 8 else np.int32
    a, b = ordered(got.view(integer)).astype(object), ordered(want.view(integer)).astype(object)
    unit = 1 << ((53 if want.dtype.itemsize == 8 else 24) - DIGITS.get(t, 24))
    steps = float(max((abs(x - y) for x, y in zip(a, b)), default=0)) / unit
    size = np.abs(want[np.isfinite(want)])
    if t in COMPLEX or op in ("fft", "dot", "convolution", "tan", "sine", "cosine"):  # beside the largest part
        scale = max(float(size.max()) if size.size else 1.0, 1e-30) * 2.0 ** (1 - DIGITS[t])
        finite = np.isfinite(want) & np.isfinite(got)
        if np.array_equal(got[~finite], want[~finite]) and t in COMPLEX:
            return float(np.max(np.abs(got[finite] - want[finite]), initial=0)) / scale
    return steps if steps > 0 else 0.25  # signs of zeros alone


def read_outputs(folder, count):
    return [np.load(os.path.join(folder, f"{k}.npy")) for k in range(count)]


# XLA counts the copies of the sign that fill an s4's byte, and takes a u2 exponent of 2 or 3 for negative. Its
# reductions and sorts of 2-bit integers give zeros, or write beyond their memory. It rounds, and so cuts off at
# the largest value, after each product of 4-bit floats; here a reduction rounds once.
# f8e8m0fnu has neither zero nor sign to be a limit.
NOT_ASKED = {("popcnt", "s4"), ("power", "u2"), ("reduce-multiply", "f4e2m1fn"), ("clamp", "f8e8m0fnu"),
             ("logistic", "f8e8m0fnu")} | {
    (op, t) for op in ("sort", "reduce-window", "reduce-add", "reduce-multiply", "reduce-maximum", "reduce-minimum",
                       "reduce-and", "reduce-or") for t in ("s2", "u2")}
SIGNED = [t for t in INTEGERS if t[0] == "s"]
# Types that an operation is defined for; the others are not asked about.
DOMAINS = {
    "abs": FLOATS + SIGNED + COMPLEX, "sign": FLOATS + INTEGERS + COMPLEX, "negate": FLOATS + INTEGERS + COMPLEX,
    "not": INTEGERS + ["pred"], "popcnt": INTEGERS, "count-leading-zeros": INTEGERS, "copy": TYPES, "complex": ["f32", "f64"],
    "real": FLOATS + COMPLEX, "imag": FLOATS + COMPLEX, "is-finite": FLOATS, "reduce-precision": FLOATS,
    "and": INTEGERS + ["pred"], "or": INTEGERS + ["pred"], "xor": INTEGERS + ["pred"], "fft": COMPLEX,
    "reduce-and": INTEGERS + ["pred"], "reduce-or": INTEGERS + ["pred"], "clamp": FLOATS + INTEGERS, "sort": FLOATS + INTEGERS + ["pred"],
    "reduce-maximum": FLOATS + INTEGERS + ["pred"], "reduce-minimum": FLOATS + INTEGERS + ["pred"],
    "compare-LT": FLOATS + INTEGERS + ["pred"], "maximum": FLOATS + INTEGERS + ["pred"], "minimum": FLOATS + INTEGERS + ["pred"],
    "remainder": FLOATS + INTEGERS, "power": FLOATS + INTEGERS + COMPLEX, "atan2": FLOATS,
    "subtract": FLOATS + INTEGERS + COMPLEX, "divide": FLOATS + INTEGERS + COMPLEX,
}
for name in "ceil floor round-nearest-afz round-nearest-even cbrt erf".split():
    DOMAINS[name] = FLOATS
for name in ("sqrt rsqrt exponential exponential-minus-one log log-plus-one logistic tanh tan sine cosine acos acosh asin asinh "
             "atanh cosh sinh").split():
    DOMAINS[name] = FLOATS + COMPLEX
for name in "shift-left shift-right-arithmetic shift-right-logical".split():
    DOMAINS[name] = INTEGERS
for name in FLOATS + INTEGERS + ["pred"]:
    DOMAINS[f"convert-{name}"] = FLOATS + INTEGERS + ["pred"]


# Operations that XLA's text has had since later.
NUMPY = {"acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atanh": np.arctanh,
         "cosh": np.cosh, "sinh": np.sinh}


def reference(xla, op, t, text, inputs):
    if op not in NUMPY:
        return xla.run_one(text, inputs)
    if t not in ("f64", "f32", "c128", "c64"):
        raise oracle.XlaError("no such type")
    with np.errstate(all="ignore"):
        if t in COMPLEX:
            out = NUMPY[op](inputs[0].astype(np.complex128) + 1j * inputs[1])
            return [out.real.astype(inputs[0].dtype), out.imag.astype(inputs[0].dtype)]
        return [NUMPY[op](inputs[0].astype(np.float64)).astype(inputs[0].dtype)]


class Tally:
    passed, failed, columns = 0, [], set()


def ask_xla(xla, op, folder):
    """XLA's numbers by type; inputs and module are written for ours."""
    wants = {}
    for t in DOMAINS.get(op, TYPES):
        built = build(op, t) if (op, t) not in NOT_ASKED else None
        if not built:
            continue
        text, inputs = built
        try:
            wants[t] = reference(xla, op, t, text, inputs)
        except oracle.XlaError:
            continue
        at = os.path.join(folder, f"{op}.{t}")
        os.makedirs(at + "/in")
        os.makedirs(at + "/out")
        open(at + "/m.hlo", "w").write(text)
        for k, x in enumerate(inputs):
            np.save(f"{at}/in/{k}.npy", x)
    return wants


def run_ours(op, wants, folder):
    script = ["set bail=off"]
    for t in wants:
        at = os.path.join(folder, f"{op}.{t}")
        script += [f"load {at}/m.hlo", f"run inputs={at}/in outputs={at}/out"]
    path = os.path.join(folder, "row.gspmd")
    open(path, "w").write("\n".join(script) + "\n")
    subprocess.run([GSPMD, "-q", "-n", "-f", path], capture_output=True, timeout=600)


def bound_of(op, t):
    bound = BOUNDS.get(op, 0)
    if t in COMPLEX and op not in ("add", "subtract", "negate", "real", "imag", "copy", "select"):
        bound = max(bound, COMPLEX_BOUND)
    if op == "logistic" and DIGITS.get(t, 24) < 24:
        bound = 2  # XLA rounds e^-x to the type in between
    elif DIGITS.get(t, 24) < 24 and bound:
        bound = 1  # computed in f32 on both sides, then rounded: at most to the neighbour
    return bound


def cell(op, t, want, folder):
    try:
        got = read_outputs(f"{folder}/{op}.{t}/out", len(want))
    except OSError:
        Tally.failed.append(f"{op} of {t}: ours refuses")
        return "E"
    kind, bound = op[8:] if op.startswith("convert-") else t, bound_of(op, t)
    off = max(distance(g.reshape(w.shape), w, kind, op) for g, w in zip(got, want))
    if off <= bound:
        Tally.passed += 1
        return "=" if off == 0 else f"{off:.0f}" if off >= 1 else "<1"
    Tally.failed.append(f"{op} of {t}: {off:.3g} units, bound {bound}")
    return "!" + (f"{off:.0f}" if off < 1e4 else "big")


def main():
    operations = (UNARY + BINARY + [f"compare-{d}" for d in DIRECTIONS] + ["select", "clamp", "reduce-precision"] +
                  "broadcast reverse slice concatenate transpose pad iota dynamic-slice dynamic-update-slice gather scatter "
                  "sort reduce-add reduce-multiply reduce-maximum reduce-minimum reduce-and reduce-or reduce-window dot "
                  "convolution fft".split() + [f"convert-{t}" for t in TYPES if t not in COMPLEX])
    chosen = [o for o in operations if o in sys.argv[3:]] if sys.argv[3:] else operations
    print(" " * 24 + " ".join(t[-5:].rjust(5) for t in TYPES))
    with tempfile.TemporaryDirectory() as folder, oracle.Xla(devices=1, timeout=60) as xla:
        for op in chosen:
            wants = ask_xla(xla, op, folder)
            run_ours(op, wants, folder)
            row = [cell(op, t, wants[t], folder) if t in wants else "." for t in TYPES]
            Tally.columns |= set(wants)
            print(op.ljust(24) + " ".join(c.rjust(5) for c in row), flush=True)
            if not wants:
                Tally.failed.append(f"{op}: an empty row")
    for t in TYPES:
        if t not in Tally.columns:
            Tally.failed.append(f"{t}: an empty column")
    for line in Tally.failed:
        print("FAIL", line)
    print(f"{Tally.passed} passed, {len(Tally.failed)} failed")
    sys.exit(1 if Tally.failed else 0)


main()
