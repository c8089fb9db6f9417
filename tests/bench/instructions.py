#!/usr/bin/env python3
"""Counts the instructions that each side of a connection spends on a packet, with callgrind, and compares them with the
table beside this file: TAP. Arguments: path of hot_path, and `check`, or `update` to write the table anew."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

HOT_PATH, MODE = sys.argv[1:3]
TABLE = pathlib.Path(__file__).with_name("instructions.json")
# What a change may add before somebody has to look at it.
TOLERANCE = 0.03

SIDES = ("requester_side", "responder_side")
# name: (packets of a message, messages of a short run and of a long one, whose difference is counted)
WORKLOADS = {
    "write-64KiB": (16, 20, 60),
    "read-64KiB": (16, 20, 60),
    "write-8B": (1, 500, 1500),
    "write-8B-256QP": (1, 20480, 40960),
    "send-8B": (1, 500, 1500),
}


def collected(workload, side, messages):
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no",
               f"--toggle-collect=*Bench::{side}*", HOT_PATH, workload, str(messages)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    found = re.search(r"Collected : (\d+)", result.stderr)
    tap.check(result.returncode == 0 and found, result.stderr)
    return int(found.group(1))


def per_packet(workload, side):
    packets, short, long = WORKLOADS[workload]
    return (collected(workload, side, long) - collected(workload, side, short)) / (long - short) / packets


def check(workload, side, limit):
    count = per_packet(workload, side)
    print(f"# {workload} {side}: {count:.0f} instructions a packet, {limit} in the table", flush=True)
    tap.check(count <= limit * (1 + TOLERANCE), f"{count:.0f} instructions a packet, {limit} in the table")
    tap.check(count >= limit * (1 - 2 * TOLERANCE), f"{count:.0f} is well below {limit}: write the table anew")


def why_not():
    if shutil.which("valgrind") is None:
        return "valgrind is not installed"
    if " avx2 " not in pathlib.Path("/proc/cpuinfo").read_text():
        return "the table is for the AVX2 paths of memcpy and CRC, which this processor does not have"
    return ""


def update():
    table = {workload: {side: round(per_packet(workload, side)) for side in SIDES} for workload in WORKLOADS}
    TABLE.write_text(json.dumps(table, indent=2) + "\n")
    print(TABLE.read_text())


def main():
    if MODE == "update":
        return update()
    if why_not():
        return tap.skip_all(why_not())
    table = json.loads(TABLE.read_text())
    return tap.run(
        (f"{workload} {side}", lambda w=workload, s=side: check(w, s, table[w][s]))
        for workload in WORKLOADS
        for side in SIDES
    )


sys.exit(main())
