#!/usr/bin/env python3
"""Perftest over Rocinante beside the bare cable, in turn, in one run: medians and their ratios.

Arguments: the build folder (default: build), the number of rounds (default: 5).
"""

import json
import pathlib
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))

from pair import Pair  # noqa: E402

BUILD = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 5


def bare_cable():
    output = subprocess.check_output([BUILD / "tests/bench/bare_cable", "--seconds", "0.5", "--json"], text=True)
    result = json.loads(output)
    frame = result["frames"][0]
    gbps = frame["per_s"] * frame["bytes"] * 8 / 1e9
    core_gbps = frame["bytes"] * 8 / frame["copy_and_crc_ns"]
    return gbps, result["half_round_trip_ns"] / 1e3, core_gbps


def perftest(program, flags, column):
    with Pair(str(BUILD / "tools/roci"), program, flags) as pair:
        pair.finish(120)
        rows = [line.split() for line in pair.client.text().splitlines() if line.strip()[:1].isdigit()]
        return float(rows[-1][column])


def main():
    columns = {"bare": [], "bare latency": [], "core": [], "write": [], "send latency": []}
    for number in range(ROUNDS):
        print(f"round {number + 1} of {ROUNDS}", file=sys.stderr)
        gbps, latency_us, core_gbps = bare_cable()
        columns["bare"].append(gbps)
        columns["bare latency"].append(latency_us)
        columns["core"].append(core_gbps)
        # Average bandwidth in MB/s (2^20), typical latency in us.
        columns["write"].append(perftest("ib_write_bw", ["-s", 65536, "-n", 50000], 3) * 8 * 2**20 / 1e9)
        columns["send latency"].append(perftest("ib_send_lat", ["-s", 2, "-n", 10000], 4))
    median = {name: statistics.median(values) for name, values in columns.items()}
    print(f"bare cable, 4154-byte frames       {median['bare']:8.1f} Gb/s")
    print(f"  of what one core copies and CRCs {median['bare'] / median['core']:8.2f}")
    print(f"ib_write_bw -s 65536               {median['write']:8.1f} Gb/s")
    print(f"  of the bare cable                {median['write'] / median['bare']:8.2f}")
    print(f"bare cable, half a round trip      {median['bare latency']:8.2f} us")
    print(f"ib_send_lat -s 2, typical          {median['send latency']:8.2f} us")


main()
