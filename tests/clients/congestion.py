#!/usr/bin/env python3
"""Congestion control of unmodified perftest on a live cable: marks, CNPs and rates. TAP. Arguments: path of roci; and,
to run only some cases, texts that their names hold.

tests/sim holds the rates to the formulas in virtual time; here is seen that they reach the wire and `roci stat`."""

import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import roce_capture as roce  # noqa: E402
import tap  # noqa: E402
from pair import Pair  # noqa: E402
from tap import check, check_equal  # noqa: E402

ROCI = sys.argv[1]
WANTED = sys.argv[2:]
HANG_SECONDS = 120

CNP = 0x81
CNP_INTERVAL_NS = 2_000_000
LINE_RATE_BPS = 100_000_000_000
# Enough messages for several CNPs, few enough for the least rate.
MESSAGES = ["-s", 65536, "-n", 400]


def running_stacks():
    done = subprocess.run([ROCI, "stat", "--json"], capture_output=True, text=True, timeout=HANG_SECONDS)
    check_equal(done.returncode, 0)
    return json.loads(done.stdout)


def lowest_rate(pair):
    """What `roci stat` says of the client's QP while it runs: the row with the lowest rate seen."""
    lowest = None
    while pair.client.wait(0.02) is None:
        for stack in running_stacks():
            if stack["link"] != pair.link or stack["pid"] != pair.client.process.pid:
                continue
            for row in stack["rates"]:
                if lowest is None or row["current_rate_bps"] < lowest["current_rate_bps"]:
                    lowest = row
    return lowest


def run_marked(cc, marks, folder):
    faults = f"{folder}/marks"
    pathlib.Path(faults).write_text(marks + "\n")
    server = ["--cc", cc, "--faults", faults, "--capture", f"{folder}/server.pcapng"]
    with Pair(ROCI, "ib_write_bw", MESSAGES, server_run=server, client_run=["--cc", cc]) as pair:
        lowest = lowest_rate(pair)
        pair.finish(HANG_SECONDS)
    return lowest, roce.read(f"{folder}/server.pcapng")


def test_marks_are_answered_and_obeyed():
    with tempfile.TemporaryDirectory() as folder:
        # The rate does not climb back before somebody has looked.
        cc = "dcqcn,preset=paper,min_time_between_cnps=2ms,rpg_time_reset=1s,rpg_byte_reset=off"
        lowest, packets = run_marked(cc, "mark-ce rate=20% dir=rx", folder)
    cnps = [packet for packet in packets if packet.opcode == CNP]
    check(len(cnps) >= 3, f"{len(cnps)} CNPs")
    check(all(packet.direction == roce.OUTBOUND for packet in cnps), "a CNP came in")
    span_ns = cnps[-1].ns - packets[0].ns
    check((len(cnps) - 1) * CNP_INTERVAL_NS <= span_ns, f"{len(cnps)} CNPs in {span_ns} ns are more than one in 2 ms")
    check(lowest is not None, "roci stat shows no rate of the client's QP")
    check(lowest["current_rate_bps"] <= LINE_RATE_BPS // 2, f"the rate did not fall: {lowest}")
    check(0 < lowest["alpha"] <= 1, f"alpha: {lowest}")


def test_without_marks_nothing_is_slowed():
    with tempfile.TemporaryDirectory() as folder:
        lowest, packets = run_marked("dcqcn", "mark-ce nth=1 opcode=RC_FETCH_ADD", folder)
    check(not any(packet.opcode == CNP for packet in packets), "CNPs without marks")
    check(lowest is None or lowest["current_rate_bps"] == LINE_RATE_BPS, f"{lowest}")


def main():
    cases = [(name[5:].replace("_", " "), case) for name, case in globals().items() if name.startswith("test_")]
    return tap.run([(name, case) for name, case in cases if not WANTED or any(text in name for text in WANTED)])


sys.exit(main())
