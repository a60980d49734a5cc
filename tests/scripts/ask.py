#!/usr/bin/env python3
"""Tries what `why-not` and `coverage` say on real dumps.

why-not: the nearest annotation, once given, brings the sharding that was asked for. coverage: what could go
together goes, and no sharding changes; what "without it N change" changes N. usage: ask.py GSPMD INPUTS
"""
import json
import pathlib
import subprocess
import sys

WHY_NOT = ["einsum_zoo_small.hlo", "convs_small.hlo", "embed_onehot_small.hlo", "conformer_small.hlo.gz", "beam_small.hlo"]
COVERAGE = ["paper/t1_final.hlo.gz", "paper/t1_attempt2.hlo.gz", "adafactor_small.hlo"]
QUESTIONS, TENSORS = 12, 8


def ask(gspmd, model, *commands):
    words = [gspmd, "-q", "-n", "--json", "-c", "set bail=off; " + "; ".join(commands), str(model)]
    out = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=120).stdout.decode(errors="replace")
    return [json.loads(line) for line in out.splitlines() if line.startswith("{")]


def answers(objects, command):
    return [o for o in objects if o.get("command") == command and "error" not in o]


def rank_of(shape):
    dims = shape[shape.index("[") + 1:shape.index("]")] if "[" in shape else ""
    return len(dims.split(",")) if dims else 0


def shown(gspmd, model, *commands):
    rows = answers(ask(gspmd, model, *commands, "show --all"), "show")
    return {(r["computation"], r["name"], r.get("site")): r["sharding"] for r in rows[-1]["instructions"]} if rows else {}


def why_not(gspmd, model):
    show = answers(ask(gspmd, model, "show --all"), "show")
    if not show:
        return 0, [f"{model.name}: no answer to show"]
    devices, tried, helped, wrong = show[0]["devices"], 0, 0, []
    rows = [r for r in show[0]["instructions"] if r["opcode"] in ("dot", "add", "convolution", "gather") and rank_of(r["shape"]) and r["sharding"] and "(" not in r["shape"]]
    for row in rows[::max(1, len(rows) // TENSORS)]:
        for dim in range(rank_of(row["shape"])):
            tiles = ",".join(str(devices if d == dim else 1) for d in range(rank_of(row["shape"])))
            spec, name = "{devices=[%s]<=[%d]}" % (tiles, devices), f'{row["computation"]}/{row["name"]}'
            got = answers(ask(gspmd, model, f"why-not {name} {spec}"), "why-not")
            if tried == QUESTIONS or not got or got[0]["holds"]:
                continue
            tried += 1
            if not got[0]["reasons"]:
                wrong.append(f"{model.name}: why-not {name} {spec}: no reason")
            if not got[0].get("nearest"):
                continue
            again = answers(ask(gspmd, model, got[0]["nearest"], f"why-not {name} {spec}"), "why-not")
            if again and again[0]["holds"]:
                helped += 1
            else:
                wrong.append(f'{model.name}: why-not {name} {spec}: "{got[0]["nearest"]}" does not bring it')
    return helped, wrong


def coverage(gspmd, model):
    got = answers(ask(gspmd, model, "coverage --all"), "coverage")
    if not got:
        return 0, [f"{model.name}: no answer to coverage"]
    before, wrong, good = shown(gspmd, model), [], 0
    spare = [a["instruction"] for a in got[0]["annotations"] if a["could_go"]]
    after = shown(gspmd, model, *(f"unshard {n}" for n in spare))
    changed = sum(after.get(k) != v for k, v in before.items())
    if changed:
        wrong.append(f"{model.name}: {len(spare)} annotations could go, but {changed} shardings change")
    elif spare:
        good += 1
    needed = [a for a in got[0]["annotations"] if a.get("changes_without")]
    for a in needed[:4]:
        after = shown(gspmd, model, f'unshard {a["instruction"]}')
        if any(after.get(k) != v for k, v in before.items()):
            good += 1
        else:
            wrong.append(f'{model.name}: without {a["instruction"]} {a["changes_without"]} change, but none does')
    return good, wrong


def main():
    gspmd, inputs = sys.argv[1], pathlib.Path(sys.argv[2])
    passed, skipped, wrong = 0, 0, []
    for names, check in ((WHY_NOT, why_not), (COVERAGE, coverage)):
        for name in names:
            if not (inputs / name).exists():
                skipped += 1
                continue
            good, bad = check(gspmd, inputs / name)
            passed += good
            wrong += bad
    for line in wrong:
        print(line)
    print(f"{passed} passed, {len(wrong)} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if wrong or not passed and not skipped else 0)


if __name__ == "__main__":
    main()
