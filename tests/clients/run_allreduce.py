#!/usr/bin/env python3
"""An all-reduce between processes that load libibverbs as collective libraries do: TAP. Arguments: paths of roci and
roci-allreduce, then `quick` or `full`."""

import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from ends import Ends  # noqa: E402
from pair import End, free_port  # noqa: E402
from tap import check  # noqa: E402

ROCI, ALLREDUCE, SUITE = sys.argv[1:4]
HANG_SECONDS = 300
RUNS = 1 if SUITE == "quick" else 20
FAULTS = "drop rate=1%\nduplicate rate=1%\ncorrupt rate=1%\nreorder=3 rate=1%\n"


class Ring(Ends):
    """One process for each list of options of `roci run`, on one cable."""

    def __init__(self, options):
        super().__init__()
        ports = []
        while len(ports) < len(options):
            port = free_port()
            if port not in ports:
                ports.append(port)
        for rank, flags in enumerate(options):
            self.ends[f"rank {rank}"] = End(ROCI, f"cable:test.{os.getpid()}.ring", [ALLREDUCE, rank, *ports], flags)

    def finish(self):
        for end in self.ends.values():
            check(end.wait(HANG_SECONDS) == 0 and "bytes checked" in end.text(), f"not done well\n{self.explain()}")


def reduce(options):
    for _ in range(RUNS):
        with Ring(options) as ring:
            ring.finish()


def with_faults():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "faults"
        file.write_text(FAULTS)
        reduce([["--faults", file]] * 4)


CASES = [
    ("4 processes", lambda: reduce([[]] * 4)),
    ("2 processes", lambda: reduce([[]] * 2)),
    ("4 processes of one host", lambda: reduce([["--host", "alpha"]] * 4)),
    ("2 hosts of 2 processes", lambda: reduce([["--host", name] for name in ("alpha", "beta") * 2])),
    ("4 processes, one address of IPv6 before the others", lambda: reduce(
        [["--ip", f"fd18::{i}/64", "--ip", f"198.18.3.{i}/24"] for i in range(1, 5)])),
    ("4 processes, with faults", with_faults),
    ("4 processes that turn their own crank", lambda: reduce([["--progress", "inline"]] * 4)),
]

sys.exit(tap.run(CASES))
