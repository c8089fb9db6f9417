#!/usr/bin/env python3
"""Everything at once for a long time, on a cable that loses one packet in a hundred: TAP. Arguments: paths of roci and
roci-verify, and for how many seconds.

Both ends do all operations in both directions, and every byte is checked. It goes well if there is no error, if no
second passes without a completion while some are due, and if memory is flat."""

import pathlib
import re
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from pair import Pair  # noqa: E402
from tap import check  # noqa: E402

ROCI, VERIFY = sys.argv[1:3]
SECONDS = int(sys.argv[3])
FAULTS = "drop rate=1% dir=tx\n"
LOAD = ["-b", "-q", 8, "-d", 32, "-l", 4, "-g", 4, "-S", 65536, "--for", SECONDS, "--patience", 1]
# What is touched late for the first time: pages of the stack, of libraries, of a cable's rings.
FLAT_KIB = 512
SAMPLES = 200


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.MULTILINE).group(1))


def check_flat(name, samples):
    quarter = len(samples) // 4
    early = max(samples[quarter // 2 : quarter])
    late = statistics.median(samples[-quarter:])
    print(f"# {name}: {early} KiB early, {late} KiB late", flush=True)
    check(late <= early + FLAT_KIB, f"memory of the {name} grows: {early} KiB early, {late} KiB late: {samples}")


def test_all_operations_with_loss():
    with tempfile.NamedTemporaryFile("w", suffix=".faults") as script:
        script.write(FAULTS)
        script.flush()
        run = ["--faults", script.name]
        with Pair(ROCI, VERIFY, LOAD, server_run=run, client_run=run) as pair:
            ends = {"client": pair.client, "server": pair.server}
            samples = {name: [] for name in ends}
            until = time.monotonic() + SECONDS
            while time.monotonic() < until and all(end.process.poll() is None for end in ends.values()):
                time.sleep(SECONDS / SAMPLES)
                for name, end in ends.items():
                    if end.process.poll() is None:
                        samples[name].append(resident_kib(end.process.pid))
            pair.finish(60)
            for name, end in ends.items():
                said = re.search(r"verify: (\d+) operations, (\d+) bytes checked, 0 errors", end.text())
                check(said, pair.explain())
                print(f"# {name}: {said.group(0)}", flush=True)
                check_flat(name, samples[name])


if __name__ == "__main__":
    tap.main(globals())
