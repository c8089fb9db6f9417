#!/usr/bin/env python3
"""rdma-core's own Python tests (Debian's python3-pyverbs) over a cable, compared with pyverbs.txt beside this file:
TAP. Arguments: path of roci, then `quick` or `full`, or `list` to print what pyverbs.txt should hold now.

Those of rdma_cm ask the kernel for the device's address: they run in a network namespace of their own, where an
interface has it."""

import collections
import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from pair import End  # noqa: E402
from tap import check  # noqa: E402

ROCI, SUITE = sys.argv[1:3]
HERE = pathlib.Path(__file__).resolve().parent
# The bindings are compiled for Debian's own Python.
PYTHON = "/usr/bin/python3"
TESTS = pathlib.Path("/usr/share/doc/rdma-core/tests")
HANG_SECONDS = 300

# The tests fork: two processes are one host.
RUN = ["--host", "pyverbs", "--ip", "198.18.0.1/15", "--ip", "fd00::1/64"]
BY_A_THREAD = ", by a thread"
RUNS = {"": []}
if SUITE == "full":
    RUNS |= {", inline": ["--progress", "inline"], BY_A_THREAD: ["--progress", "thread"]}
    RUNS |= {", MTU 1024": ["--mtu", "1024"]}
    RUNS |= {f", again {i}": [] for i in range(1, 6)}

# It takes datagrams for sent as soon as they are posted, which only a caller that turns the worker can promise.
MAY_FAIL = {BY_A_THREAD: ["test_cq.CQTest.test_resize_cq"]}

NAMESPACES = ["unshare", "--user", "--map-root-user", "--net"]
INTERFACE = """
ip link set lo up
ip link add roci0 type veth peer name roci1
ip addr add 198.18.0.1/15 dev roci0
ip link set roci0 up
exec "$@"
"""
# All processes of the tests end when they take too long.
GUARD = ["timeout", "--kill-after=5", str(HANG_SECONDS)]


def can_have_interface():
    command = [*NAMESPACES, "sh", "-e", "-c", INTERFACE, "sh", "ip", "addr", "show", "roci0"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unpack(folder):
    """Debian compresses some of them."""
    place = folder / "tests"
    place.mkdir()
    for file in TESTS.iterdir():
        if file.suffix == ".gz":
            (place / file.stem).write_bytes(gzip.decompress(file.read_bytes()))
        elif file.suffix == ".py":
            shutil.copy(file, place)


def by_module(results):
    modules = collections.defaultdict(dict)
    for name, verdict in results.items():
        modules[name.partition(".")[0]][name] = verdict
    return modules


def listed():
    """Of each test, the verdicts and reasons that are as they should be."""
    results = {}
    for line in (HERE / "pyverbs.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        test, _, reasons = line.partition(": ")
        verdict, name = test.split()
        results[name] = [("pass", "") if reason == "passes" else (verdict, reason) for reason in reasons.split(" | ")]
    return results


class Suite:
    """The tests, run once for each list of options and then remembered."""

    def __init__(self, with_interface):
        self.prefix = [*GUARD, *([*NAMESPACES, "sh", "-c", INTERFACE, "sh"] if with_interface else [])]
        self.done = {}

    def results(self, title):
        if title not in self.done:
            self.done[title] = self._run(RUNS[title])
        return self.done[title]

    def _run(self, flags):
        with tempfile.TemporaryDirectory() as folder:
            unpack(pathlib.Path(folder))
            file = pathlib.Path(folder) / "results"
            command = [PYTHON, HERE / "pyverbs_results.py", folder, file]
            end = End(ROCI, f"cable:test.{os.getpid()}.pyverbs", command, [*RUN, *flags], self.prefix)
            try:
                status = end.wait(HANG_SECONDS + 10)
                text = end.text()
            finally:
                end.end()
            lines = file.read_text().splitlines() if file.exists() else []
            results = {row["name"]: (row["verdict"], row["reason"]) for row in map(json.loads, lines)}
            return status, text, results


def compare(suite, title, module, wanted):
    status, text, results = suite.results(title)
    check(status in (0, 1), f"the tests ended with {status}\n{text[-4000:]}")
    got = by_module(results)[module]
    sure = wanted.keys() - MAY_FAIL.get(title, [])
    wrong = [f"{name}: {got.get(name)}" for name in sorted(sure) if got.get(name) not in wanted[name]]
    wrong += [f"{name}: not in the list" for name in got if name not in wanted]
    check(not wrong, "\n".join(wrong))


def skip(reason):
    raise tap.Skip(reason)


def cases(with_interface):
    suite = Suite(with_interface)
    for title in RUNS:
        for module, wanted in by_module(listed()).items():
            passes = sum(verdict[0][0] == "pass" for verdict in wanted.values())
            name = f"{module}: {passes} of {len(wanted)} pass{title}"
            if "rdmacm" in module and not with_interface:
                yield name, lambda: skip("no network namespace with an interface here")
            else:
                yield name, lambda t=title, m=module, w=wanted: compare(suite, t, m, w)


def main():
    probe = [PYTHON, "-c", "import pyverbs"]
    if not TESTS.exists() or subprocess.run(probe, capture_output=True, check=False).returncode != 0:
        return tap.skip_all(f"python3-pyverbs is not installed, or {TESTS} is not")
    with_interface = can_have_interface()
    if SUITE != "list":
        return tap.run(cases(with_interface))
    status, text, results = Suite(with_interface).results("")
    for name, (verdict, reason) in sorted(results.items()):
        print(f"{verdict} {name}" + (f": {reason}" if reason else ""))
    print(text if status != 0 else "", end="", file=sys.stderr)
    return status


sys.exit(main())
