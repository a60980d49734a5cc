"""Compares NAME.hlo with NAME.mhlo.mlir: shardings after propagation (as a multiset of opcode, shape,
sharding over the entry and all that it calls) and the bytes of every kind of collective; and NAME.sdy.hlo
with NAME.sdy.mlir, where Shardy's words are frontend attributes and operations: the bytes."""
import collections
import fnmatch
import json
import os
import subprocess
import sys

# Pairs that are two programs: the text of one names the devices in another order than the other's.
DIFFERENT = {"device_order2_small"}
# Their HLO's header does not let propagation shard the outputs, as StableHLO's silence does.
CLOSED = {"gpt3_million.sdy", "mlp_million.sdy", "moe_million.sdy", "pipe_million.sdy"}
# What the two forms may have more or less of without any meaning for the sharding of values.
PLUMBING = {"parameter", "tuple", "get-tuple-element", "call", "constant"}


def run(gspmd, path, commands):
    out = subprocess.run([gspmd, "-n", "--json", "-c", f"load {path}; {commands}"], capture_output=True,
                         text=True, timeout=600)
    return [json.loads(line) for line in out.stdout.splitlines() if line.startswith("{")]


def answers(gspmd, path):
    shown, bytes_by_kind, total, error = collections.Counter(), collections.Counter(), 0, None
    for a in run(gspmd, path, "set passes=spmd; show --all; comms"):
        if "error" in a:
            error = a["error"].get("message")
        if a.get("command") == "show":
            for i in a["instructions"]:
                if i["opcode"] not in PLUMBING and not i.get("removed"):
                    shown[i["opcode"], i["shape"], i["sharding"]] += 1
        if a.get("command") == "comms" and "bytes" in a:
            total = a["bytes"]
            for c in a["collectives"]:
                bytes_by_kind[c["kind"]] += c["bytes"]
    return shown, bytes_by_kind, total, error


def main():
    gspmd, folder, pattern = sys.argv[1:4]
    passed = failed = same_shown = 0
    for name in sorted(os.listdir(folder)):
        for end in (".mhlo.mlir", ".mhlo.mlir.gz", ".sdy.mlir", ".sdy.mlir.gz"):
            base = name[: -len(end)]
            if not name.endswith(end) or "." in base or not fnmatch.fnmatch(base, pattern):
                continue
            sdy = ".sdy" in end
            base += ".sdy" if sdy else ""
            if base in CLOSED:
                print(f"{base}: the HLO text fixes its outputs' shardings, the other does not: skipped")
                continue
            if base in DIFFERENT:
                print(f"{base}: the two texts give its devices in different orders: skipped")
                continue
            hlo = os.path.join(folder, base + ".hlo")
            hlo = hlo if os.path.exists(hlo) else hlo + ".gz"
            if sdy and not os.path.exists(hlo):
                continue
            a, b = answers(gspmd, hlo), answers(gspmd, os.path.join(folder, name))
            same_shown += not sdy and a[0] == b[0]
            if a[3] or b[3]:
                print(f"{base}: HLO: {a[3]}; StableHLO: {b[3]}")
            if a[1:3] == b[1:3] and not b[3]:
                passed += 1
                if a[0] != b[0] and not sdy:
                    more, less = b[0] - a[0], a[0] - b[0]
                    print(f"{base}: equal bytes; {sum(less.values())} rows only of HLO, "
                          f"{sum(more.values())} only of StableHLO")
                continue
            failed += 1
            print(f"{base}: bytes {a[2]} and {b[2]}: "
                  f"{dict((k, (a[1][k], b[1][k])) for k in a[1] | b[1] if a[1][k] != b[1][k])}")
            for k, n in list((a[0] - b[0]).items())[:4]:
                print("   HLO      ", n, *k)
            for k, n in list((b[0] - a[0]).items())[:4]:
                print("   StableHLO", n, *k)
    print(f"{same_shown} pairs with equal shardings of all rows")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
