#!/usr/bin/env python3
"""Real clients, unmodified, over a cable: TAP. Arguments: paths of roci, roci-verify, check-capture and gone, then
`quick` or `full`; and, to run only some cases, texts that their names hold."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
import unreliable  # noqa: E402
from libfabric_cases import Cases as FabricCases  # noqa: E402
from mpi_cases import Cases as MpiCases  # noqa: E402
from pair import End, Pair, free_port  # noqa: E402
from rdmacm_cases import Cases as CmCases  # noqa: E402
from tap import check  # noqa: E402
from ucx_cases import Cases as UcxCases  # noqa: E402
from view_cases import Cases as ViewCases  # noqa: E402

ROCI, VERIFY, CHECK_CAPTURE, GONE, SUITE = sys.argv[1:6]
WANTED = sys.argv[6:]
FULL = SUITE == "full"
HANG_SECONDS = 600 if FULL else 120
CYCLES = 1000 if FULL else 50

BANDWIDTH = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
LATENCY = ("ib_write_lat", "ib_read_lat", "ib_send_lat")

# Flags of each case. -n keeps the short list short; without -n perftest's own counts (1,000 or 5,000) hold.
PERFTEST = {
    "no flags": (BANDWIDTH + LATENCY, []),
    "-a": (BANDWIDTH + LATENCY, ["-a"] + ([] if FULL else ["-n", 100])),
    "-q 16": (BANDWIDTH, ["-q", 16] + ([] if FULL else ["-n", 300])),
    "-l 16": (BANDWIDTH, ["-l", 16, "-n", 3200]),
    "-D 3": (BANDWIDTH + LATENCY, ["-D", 3]),
    "-s 1": (BANDWIDTH + LATENCY, ["-s", 1]),
    "-s 1048577": (BANDWIDTH + LATENCY, ["-s", 1048577] + ([] if FULL else ["-n", 200])),
    "-m 1024": (BANDWIDTH + LATENCY, ["-m", 1024]),
    "-b": (BANDWIDTH, ["-b"]),
}

VERIFY_LOADS = {
    "no flags": [],
    "both directions": ["-b"],
    "16 QPs": ["-q", 16, "-n", 128],
    "chains of 16": ["-l", 16, "-d", 32],
    "1 byte": ["-s", 1],
    "0 bytes": ["-s", 0, "--ops", "send,sendimm,write,writeimm,read"],
    "1048577 bytes": ["-s", 1048577, "-n", 32, "-d", 4],
    "MTU 256": ["-m", 256],
    "MTU 1024": ["-m", 1024, "-b"],
    "events": ["-e", "-b"],
    "windows of type 1": ["--windows", 1, "-q", 4, "-b"],
    "windows of type 2": ["--windows", 2, "-q", 4, "-b"],
    "32 elements": ["-g", 32, "-S", 40000],
    "all at once": ["-q", 8, "-b", "-l", 8, "-d", 32, "-g", 7, "-S", 30000, "-n", 192],
}

MORE_PERFTEST = [
    ("ib_atomic_bw", ["-A", "FETCH_AND_ADD"]),
    ("ib_atomic_bw", ["-A", "CMP_AND_SWAP"]),
    ("ib_atomic_lat", []),
    ("ib_read_bw", ["-e"]),
    ("ib_read_lat", ["-e"]),
    ("ib_send_bw", ["-e"]),
    ("ib_send_lat", ["-e"]),
    ("ib_send_bw", ["--use-srq"]),
    ("ib_send_lat", ["--use-srq"]),
    ("ib_send_bw", ["-r", 1, "-t", 1]),
    ("ib_write_bw", ["-t", 1]),
    ("ib_write_bw", ["--use_old_post_send"]),
]
# With events this program has one channel for both CQs and takes any event for the one that it waits for: it goes
# wrong as soon as the answer comes before the ACK of what it answers, which loss brings about on any network.
ONLY_WITHOUT_LOSS = [("ib_send_lat", ["-e"])]

PINGPONG = [("ibv_rc_pingpong", flags) for flags in
            ([], ["-e"], ["-t"], ["-N"], ["-s", 0], ["-s", 1], ["-s", 1048576, "-n", 100],
             ["-m", 256], ["-m", 512], ["-m", 1024], ["-m", 2048], ["-m", 4096])]
PINGPONG += [("ibv_srq_pingpong", []), ("ibv_srq_pingpong", ["-e"])]


def needs(program):
    if "/" not in program and shutil.which(program) is None:
        raise tap.Skip(f"{program} is not installed")


def table_rows(text):
    """The rows of a perftest table: lists of numbers."""
    rows = [line.split() for line in text.splitlines() if re.match(r"^ *\d+ +\d+ +[\d.]+", line)]
    return [[float(word) for word in row] for row in rows]


def perftest(program, flags, run_flags=()):
    needs(program)
    with Pair(ROCI, program, flags, server_run=run_flags, client_run=run_flags) as pair:
        pair.finish(HANG_SECONDS)
        rows = table_rows(pair.client.text())
        check(rows, f"no table\n{pair.explain()}")
        check(all(row[-1] > 0 for row in rows), f"a zero in the table\n{pair.explain()}")


def verify(flags, run_flags=()):
    with Pair(ROCI, VERIFY, flags, server_run=run_flags, client_run=run_flags) as pair:
        pair.finish(HANG_SECONDS)
        for end in (pair.client, pair.server):
            check(re.search(r"verify: \d+ operations, \d+ bytes checked, 0 errors", end.text()), pair.explain())


def pingpong(program, flags, run_flags=()):
    needs(program)
    if "-s" not in flags and program in ("ibv_rc_pingpong", "ibv_srq_pingpong"):
        flags = ["-c", *flags]
    with Pair(ROCI, program, ["-g", 0, *flags], server_run=run_flags, client_run=run_flags) as pair:
        pair.finish(HANG_SECONDS)
        check("iters in" in pair.client.text(), pair.explain())


def single(command, *wanted, run_flags=()):
    needs(command[0])
    end = End(ROCI, f"cable:test.{os.getpid()}.single", command, run_flags)
    try:
        check(end.wait(HANG_SECONDS) == 0, end.text())
        for text in wanted:
            check(text in end.text(), f"no {text!r} in\n{end.text()}")
    finally:
        end.end()


ALL_KINDS = "drop rate=2%\nduplicate rate=2%\ncorrupt rate=1%\nreorder=3 rate=2%\n"
LOSS = "drop rate=5%\n"
# The pingpong programs leave as soon as they have what they wait for. Whoever then still waits for the ACK of its last
# SEND waits in vain, on any network, if that was lost: the end of their run is without loss.
EARLY_LOSS = "drop rate=5% times=40\n"


def with_faults(script, run, *arguments):
    """A client over a link that loses and more: slower, never wrong."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "faults"
        file.write_text(script)
        run(*arguments, ["--faults", str(file)])


def leftovers():
    """Files of this test's cables."""
    return [name for name in os.listdir("/dev/shm") if f".test.{os.getpid()}." in name]


LONG = ["-s", 65536, "-n", 5000000]


def wait_until_under_way(pair, workers=2):
    """Until all workers of the two ends have packets, as `roci stat` tells."""
    deadline = time.monotonic() + HANG_SECONDS
    while time.monotonic() < deadline:
        stacks = json.loads(subprocess.check_output([ROCI, "stat", "--json"], text=True))
        received = [stack["counters"]["rx_packets"] for stack in stacks if stack["link"] == pair.link]
        if len(received) == workers and min(received) > 100:
            return
        time.sleep(0.05)
    raise AssertionError(f"no transfer\n{pair.explain()}")


def killed(program, who, flags=(), run_flags=(), workers=2):
    """The other end ends with an error; the next pair on the same cable just works."""
    needs(program)
    with Pair(ROCI, program, [*LONG, *flags], server_run=run_flags, client_run=run_flags) as pair:
        wait_until_under_way(pair, workers)
        victim, other = (pair.client, pair.server) if who == "client" else (pair.server, pair.client)
        check(victim.process.poll() is None and other.process.poll() is None, f"not under way\n{pair.explain()}")
        victim.signal(signal.SIGKILL)
        status = other.wait(60)
        check(status not in (None, 0), f"the other end did not fail\n{pair.explain()}")
        # retry_cnt 7 and timeout 14: at most 8 x 67 ms for the end that sends; perftest says what completed how.
        if other is pair.client:
            check("Completion with error" in other.text() or "Failed status" in other.text(), pair.explain())
        link = pair.link
    with Pair(ROCI, program, ["-n", 200, *flags], server_run=run_flags, client_run=run_flags, link=link) as pair:
        pair.finish(HANG_SECONDS)
    check(not leftovers(), f"left behind: {leftovers()}")


def stopped(program, who):
    needs(program)
    with Pair(ROCI, program, ["-s", 65536, "-n", 50000]) as pair:
        wait_until_under_way(pair)
        end = pair.client if who == "client" else pair.server
        check(end.process.poll() is None, f"done before it could be stopped\n{pair.explain()}")
        end.signal(signal.SIGSTOP)
        time.sleep(5)
        end.signal(signal.SIGCONT)
        pair.finish(HANG_SECONDS)


def cycles():
    link = f"cable:test.{os.getpid()}.cycles"
    for _ in range(CYCLES):
        with Pair(ROCI, VERIFY, ["-n", 8, "-d", 8], link=link) as pair:
            pair.finish(HANG_SECONDS)
    check(not leftovers(), f"left behind: {leftovers()}")
    sockets = pathlib.Path("/proc/net/unix").read_text()
    check(f"test.{os.getpid()}." not in sockets, f"a socket is left:\n{sockets}")


def three_processes():
    """Three ends, each of which has both others as peers at the same time."""
    link = f"cable:test.{os.getpid()}.three"
    ports = [free_port() for _ in range(3)]
    load = ["-b", "-q", 2, "-n", 512]
    ends = []
    try:
        for i in range(3):
            serves = ["-p", ports[i], *load]
            calls = ["-p", ports[(i + 1) % 3], *load, "127.0.0.1"]
            ends.append(End(ROCI, link, [VERIFY, *serves, "+", *calls]))
        for end in ends:
            check(end.wait(HANG_SECONDS) == 0 and end.text().count(" 0 errors") == 2, end.text())
    finally:
        for end in ends:
            end.end()
    check(not leftovers(), f"left behind: {leftovers()}")


def fixed_addresses():
    ours, theirs = ["--ip", "198.18.7.1/24"], ["--ip", "198.18.7.2/24"]
    with Pair(ROCI, VERIFY, ["-x", 0], server_run=ours, client_run=theirs) as pair:
        pair.finish(HANG_SECONDS)
    with Pair(ROCI, VERIFY, ["-x", 1]) as pair:
        pair.finish(HANG_SECONDS)


def four_gids():
    """Two addresses of each kind: each is a GID, all are RoCE v2, and the last works too."""
    ours, theirs = unreliable.ADDRESSES
    single(["ibv_devinfo", "-v"], "GID[  3]", "fd18::92, RoCE v2", run_flags=ours)
    for transport in ("rc", "uc", "ud"):
        for gid in (1, 3):
            with Pair(ROCI, VERIFY, ["-c", transport, "-x", gid, "-n", 64], server_run=ours,
                      client_run=theirs) as pair:
                pair.finish(HANG_SECONDS)


def one_host():
    """Two processes that are one host: one address, told apart by QPN."""
    for transport in ("rc", "uc", "ud"):
        flags = ["-c", transport, "-b"]
        with Pair(ROCI, VERIFY, flags, server_run=["--host", "alpha"], client_run=["--host", "alpha"]) as pair:
            pair.finish(HANG_SECONDS)


def capture():
    """What two ends capture is RoCE to tshark, none of it malformed, and every ICRC is right."""
    needs("tshark")
    with tempfile.TemporaryDirectory() as folder:
        # No SENDs: of those tshark tries to make RPC-over-RDMA.
        load = ["-n", 64, "--ops", "write,writeimm,read,cas,add"]
        flags = ["--capture", f"{folder}/%p.pcapng"]
        with Pair(ROCI, VERIFY, load, server_run=flags, client_run=flags) as pair:
            pair.finish(HANG_SECONDS)
        files = [str(file) for file in pathlib.Path(folder).iterdir()]
        check(len(files) == 2, f"files {files}")
        icrc = subprocess.run([CHECK_CAPTURE, *files], capture_output=True, text=True)
        check(icrc.returncode == 0, icrc.stdout + icrc.stderr)
        for file in files:
            decoded_by_tshark(file)


def decoded_by_tshark(file):
    fields = ["infiniband.bth.opcode", "_ws.malformed", "frame.interface_name", "frame.packet_flags_direction"]
    command = ["tshark", "-r", file, "-T", "fields"] + [word for field in fields for word in ("-e", field)]
    lines = subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL).splitlines()
    check(len(lines) > 64, f"{len(lines)} packets")
    directions = set()
    for line in lines:
        opcode, malformed, interface, direction = line.split("\t")
        check(opcode != "" and malformed == "" and interface == "roci0", f"not as it should be: {line!r}")
        directions.add(int(direction, 0))
    check(directions == {1, 2}, f"directions {directions}")


def unreliable_cases():
    for program, flags in unreliable.PINGPONG:
        yield f"{program} {' '.join(map(str, flags))}".strip(), lambda p=program, f=flags: pingpong(p, f)
    for title, flags in unreliable.VERIFY.items():
        yield f"every byte: {title}", lambda f=flags: verify(f)
    for program, flags in unreliable.PERFTEST:
        yield f"{program} {' '.join(map(str, flags))}", lambda p=program, f=flags: perftest(p, f)
    yield "two addresses of each kind", four_gids


def cases():
    yield "ibv_devices", lambda: single(["ibv_devices"], "roci0")
    yield "ibv_devinfo -v", lambda: single(["ibv_devinfo", "-v"], "PORT_ACTIVE", "::ffff:198.18.0.1", "RoCE v2")
    for program, flags in PINGPONG:
        yield f"{program} {' '.join(map(str, flags))}".strip(), lambda p=program, f=flags: pingpong(p, f)
    for title, flags in VERIFY_LOADS.items():
        yield f"every byte: {title}", lambda f=flags: verify(f)
    for title, (programs, flags) in PERFTEST.items():
        for program in programs:
            yield f"{program}: {title}", lambda p=program, f=flags: perftest(p, f)
    for title in ("both directions", "16 QPs", "MTU 1024", "events", "windows of type 2"):
        yield f"every byte: {title}, with faults", lambda f=VERIFY_LOADS[title]: with_faults(ALL_KINDS, verify, f)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        yield f"{program}: with faults", lambda p=program: with_faults(ALL_KINDS, perftest, p, ["-n", 300])
    for program, flags in MORE_PERFTEST:
        title = f"{program} {' '.join(map(str, flags))}".strip()
        yield title, lambda p=program, f=flags: perftest(p, f)
        if (program, flags) not in ONLY_WITHOUT_LOSS:
            short = [*flags, "-n", 300]
            yield f"{title}: 5 % lost", lambda p=program, f=short: with_faults(LOSS, perftest, p, f)
    for program, flags in (("ibv_rc_pingpong", ["-t"]), ("ibv_rc_pingpong", ["-N"]), ("ibv_rc_pingpong", ["-e"]),
                           ("ibv_srq_pingpong", []), ("ibv_srq_pingpong", ["-e"])):
        title = f"{program} {' '.join(flags)}".strip()
        run = [*flags, "-m", 4096, "-n", 1000 if program == "ibv_rc_pingpong" else 100000]
        yield f"{title}: 5 % lost", lambda p=program, f=run: with_faults(EARLY_LOSS, pingpong, p, f)
    yield from unreliable_cases()
    yield from CmCases(ROCI, FULL, HANG_SECONDS, needs).all()
    yield from ViewCases(ROCI, HANG_SECONDS, needs).all()
    yield from UcxCases(ROCI, FULL, HANG_SECONDS, needs, single).all()
    if FULL:
        yield from MpiCases(ROCI, HANG_SECONDS, needs).all()
        yield from FabricCases(ROCI, HANG_SECONDS, needs, single).all()
    yield "kill -9 of the client", lambda: killed("ib_write_bw", "client")
    yield "kill -9 of the server", lambda: killed("ib_write_bw", "server")
    yield "kill -9 of the receiving end of ib_send_bw", lambda: killed("ib_send_bw", "server")
    yield "SIGSTOP of the client", lambda: stopped("ib_write_bw", "client")
    yield "SIGSTOP of the server", lambda: stopped("ib_write_bw", "server")
    yield "three processes on one cable, all pairs at once", three_processes
    yield "fixed addresses, and IPv6", fixed_addresses
    yield "two processes of one host", one_host
    yield "capture", capture
    yield "memory that goes away", lambda: single([GONE], "all with an error completion")
    yield f"{CYCLES} start-stop cycles", cycles
    for mode in ("inline", "thread"):
        yield f"every byte: --progress {mode}", lambda m=mode: verify(["-b", "-q", 4], ["--progress", m])
        yield f"ib_write_bw: --progress {mode}", lambda m=mode: perftest("ib_write_bw", ["-n", 1000], ["--progress", m])
        yield f"ib_send_lat: --progress {mode}", lambda m=mode: perftest("ib_send_lat", [], ["--progress", m])


    yield from cores_cases()


def two_cores(run, *arguments):
    if not {0, 1} <= os.sched_getaffinity(0):
        raise tap.Skip("needs cores 0 and 1")
    run(*arguments)


def verify_on_two_cores(run_flags):
    verify(["-b", "-q", 8], [*run_flags, "--cores", "0,1"])


def capture_of_workers(run_flags):
    """Each worker has a file of its own, and every ICRC is right."""
    with tempfile.TemporaryDirectory() as folder:
        ends = [["--capture", f"{folder}/{end}.pcapng", *run_flags] for end in ("server", "client")]
        with Pair(ROCI, VERIFY, ["-q", 4, "-n", 64], server_run=ends[0], client_run=ends[1]) as pair:
            pair.finish(HANG_SECONDS)
        files = sorted(file.name for file in pathlib.Path(folder).iterdir())
        check(files == ["client.1.pcapng", "client.pcapng", "server.1.pcapng", "server.pcapng"], f"files {files}")
        for name in files:
            icrc = subprocess.run([CHECK_CAPTURE, f"{folder}/{name}"], capture_output=True, text=True)
            check(icrc.returncode == 0 and not icrc.stdout.startswith("0 packets"), icrc.stdout + icrc.stderr)


def cores_cases():
    """Two workers a process, whose threads share two cores with everything else."""
    flags = ["--cores", "0,1"]
    for title in ("both directions", "16 QPs", "events", "windows of type 1", "windows of type 2"):
        yield f"every byte: {title}, two workers", lambda f=VERIFY_LOADS[title]: two_cores(verify, f, flags)
    yield "every byte: 8 QPs, two workers, with faults", lambda: two_cores(with_faults, ALL_KINDS, verify_on_two_cores)
    for transport in ("uc", "ud"):
        run = ["-c", transport, "-q", 8]
        yield f"every byte: {transport}, two workers", lambda f=run: two_cores(verify, f, flags)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        run = ["-q", 8, "-n", 1000]
        yield f"{program}: 8 QPs, two workers", lambda p=program, f=run: two_cores(perftest, p, f, flags)
    for program in ("ib_write_lat", "ib_send_lat"):
        yield f"{program}: two workers", lambda p=program: two_cores(perftest, p, [], flags)
    for who in ("client", "server"):
        yield (f"kill -9 of the {who}: two workers",
               lambda w=who: two_cores(killed, "ib_write_bw", w, ["-q", 8], flags, 4))
    yield "capture: two workers", lambda: two_cores(capture_of_workers, flags)
    yield "ibv_srq_pingpong: two workers", lambda: two_cores(pingpong, "ibv_srq_pingpong", ["-e"], flags)


sys.exit(tap.run((name, run) for name, run in cases() if not WANTED or any(text in name for text in WANTED)))
