#!/usr/bin/env python3
"""roci stat from outside, with a program that waits for a peer: stat_test.py ROCI."""

import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

ROCI = pathlib.Path(sys.argv[1]).resolve()
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("ROCI_", "LD_"))}
LINK = f"cable:stat.{os.getpid()}"
GIVE_UP_SECONDS = 60


def stat(*arguments):
    result = subprocess.run(
        [ROCI, "stat", *arguments], env=PLAIN, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60
    )
    tap.check_equal(result.returncode, 0, f"exit status ({result.stderr})")
    return result.stdout


def ours():
    """What stat tells of the stacks on our cable; other programs may be running too."""
    return [stack for stack in json.loads(stat("--json")) if stack["link"] == LINK]


def wait_until(condition, what):
    give_up = time.monotonic() + GIVE_UP_SECONDS
    while not condition():
        tap.check(time.monotonic() < give_up, f"waited in vain for {what}")
        time.sleep(0.05)


def free_port():
    with socket.socket() as listener:
        listener.bind(("", 0))
        return listener.getsockname()[1]


@contextlib.contextmanager
def waiting_server():
    """A perftest server that nobody talks to, its device open."""
    options = ["--link", LINK, "--name", "rocix", "--ip", "198.18.9.1/24", "--ip", "fd00::9:1/64"]
    program = ["ib_write_bw", "-d", "rocix", "-F", "-p", str(free_port())]
    server = subprocess.Popen(
        [ROCI, "run", *options, "--", *program],
        env=PLAIN,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(ours, "the server's stack")
        yield server
    finally:
        server.kill()
        server.wait()


def text_of_ours(*arguments):
    """The lines of stat's text about our server, its heading first."""
    lines = stat(*arguments).splitlines()
    start = next(number for number, line in enumerate(lines) if LINK in line)
    end = next((number for number in range(start + 1, len(lines)) if not lines[number].startswith(" ")), len(lines))
    return lines[start:end]


def described_for_cables():
    """The names that --describe has, but for those of other links' ports."""
    names = [line.split(":")[0] for line in stat("--describe").splitlines()]
    return [name for name in names if not name.startswith("port_")]


def test_json__one_object_a_stack():
    with waiting_server() as server:
        stacks = ours()
        tap.check_equal(len(stacks), 1, "stacks on the cable")
        counters = stacks[0].pop("counters")
        wanted = {"device": "rocix", "pid": server.pid, "program": "ib_write_bw", "link": LINK,
                  "sees_pfc": True}
        tap.check_equal(stacks[0], {**wanted, "addresses": ["198.18.9.1", "fd00::9:1"], "rates": []}, "identity")
        tap.check_equal(list(counters), described_for_cables(), "names")
        tap.check(counters["control_calls"] > 0, counters)
        tap.check_equal(counters["rx_packets"], 0, "rx_packets")


def test_text__counters_that_are_not_zero_unless_all_are_wanted():
    with waiting_server() as server:
        heading, *rows = text_of_ours()
        for part in ("rocix:", "ib_write_bw", f"pid {server.pid}", "198.18.9.1 fd00::9:1"):
            tap.check(part in heading, f"{part!r} is not in {heading!r}")
        tap.check(rows and not any(row.endswith(": 0") for row in rows), rows)
        names = [row.split(":")[0].strip() for row in text_of_ours("--all")[1:]]
        tap.check_equal(names, described_for_cables(), "names of --all")


def test_a_killed_program_is_gone():
    with waiting_server() as server:
        server.send_signal(signal.SIGKILL)
        server.wait()
        tap.check_equal(ours(), [], "stacks on the cable")


def test_describe__each_counter_once_with_a_sentence():
    rows = [line.split(": ", 1) for line in stat("--describe").splitlines()]
    tap.check(all(len(row) == 2 and row[1] for row in rows), rows)
    tap.check_equal(len({row[0] for row in rows}), len(rows), "different names")


if __name__ == "__main__":
    if "thread" in sys.argv[2:]:
        sys.exit(tap.skip_all("an unmodified client cannot bring ThreadSanitizer's runtime"))
    tap.main(globals())
