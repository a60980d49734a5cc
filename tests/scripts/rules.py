#!/usr/bin/env python3
"""How often each propagation rule fired and was decisive, summed over many modules.

usage: rules.py GSPMD SHARED [FUZZ_MODULES]

Modules: the propagation corpus (with each case's options), all dumps of SHARED/inputs, and, where the generator
of SHARED/oracle can be loaded, FUZZ_MODULES random ones, half of them with every flag of the header at random.
Exit status 1 where a rule fired less than 30 times or was decisive less than 5 times, and EXPLAINED has no
reason for it.
"""
import collections
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

FIRED, DECISIVE = 30, 5

# Why a rule cannot be decisive as often, or fire at all.
EXPLAINED = {
    "P-123 backward rng": "an rng's operands are scalars, its result is not",
    "no better than this element's (P-35)": "asked of variadic reductions and scatters with manual or several inputs, which are rare",
    "does not refine both sides of the conversion (P-137)": "only visits that wrote are asked again, and these fail as a rule with the whole visit",
    "lies on one device, which does not spread (P-32 2)": "only visits that wrote are asked again, and this one writes nothing",
    "manual goes first (P-32 1)": "P-96 and P-122 hand manual on before candidates are compared",
}


def modules(shared, count):
    """(name, text, commands)"""
    corpus = shared / "corpus" / "propagation.jsonl"
    for line in corpus.read_text().splitlines() if corpus.exists() else ():
        case = json.loads(line)
        text = case.get("hlo") or case.get("module") or case.get("text")
        commands = ["set prepare=off"]
        for key, value in (case.get("options") or {}).items():
            if key in ("is_spmd", "cse_prevention_only", "propagate_metadata") or key.startswith("allow_spmd"):
                commands.append(f"set {key}={json.dumps(value)}".replace(" ", "").replace("set", "set "))
        if text:
            yield case.get("name", "case"), text, commands
    for path in sorted((shared / "inputs").glob("**/*.hlo*")):
        if "after_spmd" not in path.name and ".sdy." not in path.name and path.suffix in (".hlo", ".gz"):
            yield path.name, path, []
    for seed in range(count * 3 // 2):
        commands = ["set prepare=off"] if seed % 3 == 2 else []
        if seed % 40 == 7:
            commands.append("set cse_prevention_only=true")
        yield f"special {seed}", special(random.Random(seed)), commands
    sys.path.insert(0, str(shared / "oracle"))
    try:
        import generate
    except ImportError:
        print("no generator of random modules: left out", file=sys.stderr)
        return
    for seed in range(count):
        text = generate.generate(seed, None, 20 if seed % 3 else None).text()
        if seed % 2:
            text = with_flags(text, random.Random(seed))
        yield f"random {seed}", text, ["set prepare=off"] if seed % 5 == 4 else []


SPLIT = ["{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{devices=[1,2,4]<=[8] last_tile_dim_replicate}",
         "{devices=[4,1,2]<=[8] last_tile_dim_replicate}", "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "{replicated}"]
MANUAL = "{devices=[1,1,2,4]<=[8] last_tile_dims={manual, replicated}}"


def special(rnd):
    """What front ends say besides plain annotations: open dimensions, manual regions, shard groups, unknown
    shardings, random generators, collectives, calls, shard barriers, calls without a rule."""
    lines, values, count = [], [], [0]

    def add(shape, text, keep=True):
        name = f"v{count[0]}"
        count[0] += 1
        lines.append(f"  {name} = {shape} {text}")
        if keep:
            values.append(name)
        return name

    def call(shape, operand, target, sharding, dims=()):
        config = f', backend_config="unspecified_dims=[{",".join(map(str, dims))}]"' if dims else ""
        return f'custom-call({operand}), custom_call_target="{target}", sharding={sharding}{config}'

    full, part = "f32[8,8]", "f32[4,8]"
    for k in range(rnd.randint(1, 3)):
        add(full, f"parameter({k})" + (f", sharding={rnd.choice(SPLIT)}" if rnd.random() < 0.4 else ""))
    parameters = len(values)
    for _ in range(rnd.randint(4, 16)):
        a, b = rnd.choice(values), rnd.choice(values[-3:])
        kind = rnd.randrange(19)
        dims = rnd.choice([(0,), (1,), (0, 1), ()])
        if kind == 0:
            add(full, call(full, a, "Sharding", rnd.choice(SPLIT), dims))
        elif kind == 1:
            one = add(full, call(full, a, "Sharding", rnd.choice(SPLIT[:2] + SPLIT[4:]), dims), False)
            two = add(part, call(part, one, "SPMDFullToShardShape", MANUAL, dims), False)
            two = add(part, f"negate({two})", False)
            if rnd.random() < 0.4:
                two = add(part, f"dot({two}, {a}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}", False)
            dims = rnd.choice([dims, dims, (1,)])
            one = add(part, call(part, two, "Sharding", MANUAL, dims), False)
            add(full, call(full, one, "SPMDShardToFullShape", rnd.choice(SPLIT[:2]), dims))
        elif kind in (2, 3):
            one = add(full, f"negate({a})")
            values[-1] = add(full, call(full, one, "Sharding", "{unknown shard_%s %d}" % (rnd.choice(("as", "like")), rnd.randrange(2))), False)
        elif kind == 4:
            one = add(full, f"negate({a})", False)
            add(full, call(full, one, "Sharding", "{unknown}"))
        elif kind == 5:
            state = add("u64[3]", rnd.choice(["constant({1, 2, 3})", "iota(), iota_dimension=0"]), False)
            state = add("u64[3]", f"copy({state})", False)
            pair = add("(u64[3], u32[8,8])", f"rng-bit-generator({state}), algorithm=rng_default", False)
            bits = add("u32[8,8]", f"get-tuple-element({pair}), index=1", False)
            add(full, f"convert({bits})")
        elif kind == 6:
            add(full, f"all-reduce({a}), replica_groups={{}}, to_apply=sum")
        elif kind == 7:
            target = rnd.choice(["LayoutConstraint", "MoveToHost", "MoveToDevice", "Cholesky", "Unheard"])
            add(full, f'custom-call({a}), custom_call_target="{target}"')
        elif kind == 8:
            add(full, f"cholesky({a}), lower=true")
        elif kind == 9:
            add(full, f"add({a}, {b})" + (f", sharding={rnd.choice(SPLIT)}" if rnd.random() < 0.2 else ""))
        elif kind == 10:
            add(full, f"dot({a}, {b}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}")
        elif kind == 11:
            add(full, f"transpose({a}), dimensions={{1,0}}")
        elif kind == 14:  # open, and in a group
            one = add(full, f"negate({a})", False)
            group = " shard_%s %d}" % (rnd.choice(("as", "like")), rnd.randrange(2))
            add(full, call(full, one, "Sharding", rnd.choice(SPLIT[:4])[:-1] + group, dims))
        elif kind == 15:
            one = add("f32[]", "constant(0), sharding={replicated}", False)
            two = add("f32[]", "constant(1)", False)
            add(full, f"rng({one}, {two}), distribution=rng_uniform")
        elif kind == 17:
            target = rnd.choice(("ShardBarrierFrom", "ShardBarrierTo"))
            one = add(full, f"negate({a})", False)
            add(full, f'custom-call({one}), custom_call_target="{target}", sharding={{unknown shard_{rnd.choice(("as", "like"))} '
                f'{rnd.randrange(2)}}}, custom_call_has_side_effect=true')
        elif kind == 18:
            add(full, f"call({a}, {b}), to_apply=twice")
        elif kind == 16:
            add(full, f"cholesky({a}), lower=true, sharding={rnd.choice(SPLIT)}")
        elif kind == 12:
            add(full, f"negate({a}), sharding={{unknown shard_{rnd.choice(('as', 'like'))} {rnd.randrange(2)}}}"
                if rnd.random() < 0.3 else f"tanh({a})")
        else:
            add(full, f"copy({a})" + (f", sharding={{maximal device={rnd.randrange(8)}}}" if rnd.random() < 0.2 else ""))
    used = [values[-1], rnd.choice(values)]
    root = f"  ROOT out = (f32[8,8], f32[8,8]) tuple({used[0]}, {used[1]})"
    flags = [rnd.choice(("true", "false")) for _ in range(2)]
    return ("HloModule special, num_partitions=8, allow_spmd_sharding_propagation_to_output={%s}, "
            "allow_spmd_sharding_propagation_to_parameters={%s}\n\nsum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n"
            "  ROOT r = f32[] add(a, b)\n}\n\ntwice {\n  c = f32[8,8] parameter(0)\n  d = f32[8,8] parameter(1)\n"
            "  ROOT s = f32[8,8] multiply(c, d)\n}\n\nENTRY main {\n%s\n%s\n}\n" % (*flags, "\n".join(lines), root))


def with_flags(text, rnd):
    parameters = len(re.findall(r"parameter\(", text[text.index("ENTRY"):]))
    outputs = re.search(r"ROOT [^=]*= \(([^)]*)\) tuple", text)
    outputs = outputs.group(1).count("[") if outputs else 1
    flags = lambda n: "{" + ",".join(rnd.choice(("true", "false")) for _ in range(rnd.choice((1, n)))) + "}"
    text = re.sub(r", allow_spmd_sharding_propagation_to_\w+=\{[^}]*\}", "", text)
    more = f", allow_spmd_sharding_propagation_to_output={flags(outputs)}"
    if parameters:
        more += f", allow_spmd_sharding_propagation_to_parameters={flags(parameters)}"
    return re.sub(r"(HloModule\s+[^\s,]+)", lambda m: m.group(1) + more, text, count=1)


def ask(gspmd, model, commands):
    words = [gspmd, "-q", "-n", "--json", "-c", "; ".join([*commands, "propagate --rules"]), str(model)]
    try:
        out = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120).stdout
    except subprocess.TimeoutExpired:
        return None
    for line in out.decode(errors="replace").splitlines():
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict) and "rules" in value:
            return value["rules"]
    return None


def main():
    gspmd, shared = sys.argv[1], pathlib.Path(sys.argv[2])
    count = int(sys.argv[3]) if len(sys.argv) > 3 else 3000
    fired, decisive, seen, failed = collections.Counter(), collections.Counter(), 0, 0
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder) / "module.hlo"
        for name, text, commands in modules(shared, count):
            if isinstance(text, str):
                place.write_text(text)
            rules = ask(gspmd, place if isinstance(text, str) else text, commands)
            seen += 1
            failed += rules is None
            for row in rules or ():
                fired[row["rule"]] += row["fired"]
                decisive[row["rule"]] += row["decisive"]
    poor = [r for r in fired if fired[r] < FIRED or decisive[r] < DECISIVE]
    key = lambda r: [int(n) if n.isdigit() else n for n in re.split(r"(\d+)", r)]
    for rule in sorted(fired, key=lambda r: (not r.startswith("P-"), key(r) if r.startswith("P-") else [], r)):
        note = f"  {EXPLAINED.get(rule) or 'TOO FEW'}" if rule in poor else ""
        print(f"{fired[rule]:9,} {decisive[rule]:9,}  {rule}{note}")
    bad = [r for r in poor if not EXPLAINED.get(r)]
    print(f"{len(fired)} rules over {seen} modules ({failed} not read): {len(bad)} without enough cases")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
