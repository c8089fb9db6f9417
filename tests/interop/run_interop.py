#!/usr/bin/env python3
"""Our stack against Linux's RoCE driver: TAP. Arguments: paths of roci, roci-verify, check-capture and
roci-provoke, then `quick` or `full`; and, to run only some cases, texts that their names hold."""

import contextlib
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import provoked  # noqa: E402
import rdmacm_interop  # noqa: E402
import rig as rig_module  # noqa: E402
import tap  # noqa: E402
import wire  # noqa: E402
from rig import OURS, VM, Conversation, Rig  # noqa: E402
from tap import check, check_equal  # noqa: E402

ROCI, VERIFY, CHECK_CAPTURE, PROVOKE, SUITE = sys.argv[1:6]
WANTED = sys.argv[6:]
FULL = SUITE == "full"

# In an emulated machine an answer can take long: 2 s. Where packets are lost this is how long a lost last one takes.
PATIENT = ["-u", 19]
PATIENT_UNDER_LOSS = ["-u", 16]
PERFTEST = ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw",
            "ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat")
NO_SIZES = ("ib_atomic_bw", "ib_atomic_lat")
UNRELIABLE = [("UC", program) for program in ("ib_write_bw", "ib_write_lat", "ib_send_bw", "ib_send_lat")]
UNRELIABLE += [("UD", program) for program in ("ib_send_bw", "ib_send_lat")]


@contextlib.contextmanager
def captured(rig, name="case"):
    """Yields a list that holds, afterwards, the packets; each of them right by its ICRC and to tshark."""
    packets = []
    with wire.Capture(rig, name) as capture:
        yield packets
    packets += capture.check(CHECK_CAPTURE)


def no_error_in_vm(before, after):
    """rxe counts no error, of those that stand for a request that failed."""
    for name in ("retry_exceeded_err", "retry_rnr_exceeded_err", "send_err", "link_downed"):
        check_equal(after[name] - before[name], 0, f"rxe's {name}")


@contextlib.contextmanager
def nothing_goes_wrong(rig):
    """Without loss nothing is NAKed or refused on either side, and rxe counts no error."""
    before = rig.statistics()
    with captured(rig) as packets:
        yield
    check_equal({side: dict(wire.naks(packets, side)) for side in (VM, OURS)}, {VM: {}, OURS: {}}, "NAKs")
    after = rig.statistics()
    no_error_in_vm(before, after)
    for name in ("out_of_seq_request", "rcvd_seq_err", "rcvd_rnr_err", "send_rnr_err"):
        check_equal(after[name] - before[name], 0, f"rxe's {name}")


def pingpong(rig, program, server, ip, mtu, count, run_flags=()):
    # A datagram is as long as the port's MTU allows, whatever the program wants.
    size = ["-s", mtu] if program == "ibv_ud_pingpong" else ["-m", mtu]
    flags = ["-c", *size, "-n", count]
    with Conversation(rig, program, flags, server, ip, gid_flag="-g", run_flags=run_flags) as pair:
        pair.finish()
        check("iters in" in pair.client.text(), pair.explain())


def pingpong_without_loss(rig, *arguments):
    with nothing_goes_wrong(rig):
        pingpong(rig, *arguments)


def table_rows(text):
    """The rows of a perftest table: lists of words."""
    return [line.split() for line in text.splitlines() if re.match(r"^ *\d+ +\d+ +\S+", line)]


def perftest(rig, program, flags, server, ip, mtu, timeout=PATIENT, run_flags=()):
    """Its figures are not looked at: its clock is not to be trusted in an emulated machine."""
    mtu_flags = [] if program in NO_SIZES else ["-m", mtu]
    with Conversation(rig, program, ["-F", *timeout, *mtu_flags, *flags], server, ip, run_flags=run_flags) as pair:
        pair.finish()
        rows = table_rows(pair.client.text())
        check_equal(len(rows), 23 if "-a" in flags else 1, f"rows of the table\n{pair.explain()}")


def all_sizes(rig, program, server, ip, mtu):
    before = rig.statistics()
    perftest(rig, program, ["-a", "-n", 5], server, ip, mtu)
    no_error_in_vm(before, rig.statistics())


def one_size(rig, program, server, ip, mtu, flags=()):
    with nothing_goes_wrong(rig):
        size = [] if program in NO_SIZES or "UD" in flags else ["-s", 10001]
        perftest(rig, program, ["-n", 5, *size, *flags], server, ip, mtu)


def every_byte(rig, flags, server, ip, mtu, timeout=PATIENT, run_flags=()):
    flags = ["-m", mtu, *timeout, *flags]
    with Conversation(rig, VERIFY, flags, server, ip, run_flags=run_flags) as pair:
        pair.finish()
        for end in pair.ends.values():
            check(re.search(r"verify: \d+ operations, \d+ bytes checked, 0 errors", end.text()), pair.explain())


def every_byte_without_loss(rig, *arguments):
    with nothing_goes_wrong(rig):
        every_byte(rig, *arguments)


def name_of(side):
    return "rxe" if side == VM else "ours"


def unreliable_cases(rig, places):
    # Of the short list's, each server, IP version and MTU is in two.
    for place in places if FULL else [places[number] for number in (0, 3, 5, 6)]:
        server, ip, mtu = place
        text = f"server {name_of(server)}, IPv{ip}, MTU {mtu}"
        for transport in ("uc", "ud"):
            program = f"ibv_{transport}_pingpong"
            yield f"{program}: {text}", lambda n=program, p=place: pingpong_without_loss(rig, n, *p, 50)
            flags = ["-c", transport, "-b", "-q", 2, "-d", 4, "-n", 64]
            yield f"every byte, {transport}: {text}", lambda f=flags, p=place: every_byte_without_loss(rig, f, *p)
        for transport, program in UNRELIABLE:
            flags = ["-c", transport]
            yield f"{program} -c {transport}: {text}", lambda n=program, p=place, f=flags: one_size(rig, n, *p, f)


def cases_without_loss(rig):
    places = [(server, ip, mtu) for server in (VM, OURS) for ip in (4, 6) for mtu in (1024, 4096)]
    for place in places:
        server, ip, mtu = place
        text = f"server {name_of(server)}, IPv{ip}, MTU {mtu}"
        yield f"ibv_rc_pingpong: {text}", lambda p=place: pingpong_without_loss(rig, "ibv_rc_pingpong", *p, 50)
        yield f"ibv_srq_pingpong: {text}", lambda p=place: pingpong_without_loss(rig, "ibv_srq_pingpong", *p, 200)
        yield f"every byte: {text}", lambda p=place: every_byte_without_loss(rig, ["-b", "-q", 2, "-n", 64], *p)
        for program in PERFTEST:
            yield f"{program}: {text}", lambda n=program, p=place: one_size(rig, n, *p)
    yield from unreliable_cases(rig, places)
    for number, program in enumerate(name for name in PERFTEST if name not in NO_SIZES):
        chosen = places if FULL else [((VM, OURS)[number % 2], 4, 4096)]
        for place in chosen:
            server, ip, mtu = place
            text = f"server {name_of(server)}, IPv{ip}, MTU {mtu}"
            yield f"{program} -a: {text}", lambda n=program, p=place: all_sizes(rig, n, *p)


FAULTS = {
    "1 % lost": "drop rate=1%\n",
    "5 % lost": "drop rate=5%\n",
    "10 % lost": "drop rate=10%\n",
    "duplicates": "duplicate rate=5%\n",
    "reordering": "reorder=3 rate=5%\n",
    "loss, duplicates and reordering": "drop rate=2%\nduplicate rate=2%\nreorder=3 rate=2%\n",
}


@contextlib.contextmanager
def faults(rig, script, mtu):
    """Yields flags for `roci run` with which what we send and what we receive meets faults; checks, afterwards, that
    what either side counted or did is what the packets on the wire call for."""
    (rig.folder / "faults").write_text(script, encoding="utf-8")
    ours = rig.folder / "ours.pcapng"
    before = rig.statistics()
    with captured(rig) as packets:
        yield ["--faults", rig.folder / "faults", "--capture", ours]
    after = rig.statistics()
    no_error_in_vm(before, after)
    ours = wire.roce_only(ours)
    icrcs_are_right(ours)
    of_stack = wire.read(ours)
    vm_counted_what_came({name: after[name] - before[name] for name in after}, packets, of_stack, mtu)
    we_did_what_came(of_stack, packets, mtu)


def vm_counted_what_came(counted, packets, of_stack, mtu):
    """rxe's counters are those of the packets at its tap."""
    came = wire.arrivals(packets, of_stack, OURS, mtu)
    check_equal(counted["rcvd_pkts"], sum(packet.source == OURS for packet in packets), "rxe's rcvd_pkts")
    check_equal(counted["sent_pkts"], sum(packet.source == VM for packet in packets), "rxe's sent_pkts")
    check_equal(counted["duplicate_request"], came.repeated, "rxe's duplicate_request")
    # One for each NAK, whatever came ahead of the missing packet after it.
    check_equal(counted["out_of_seq_request"], wire.naks(packets, VM)[0x60], "rxe's out_of_seq_request")
    # A NAK for what it knows already is not counted.
    check(counted["rcvd_seq_err"] <= wire.naks(packets, OURS)[0x60], "rxe counted more NAKs than we sent")


def we_did_what_came(of_stack, packets, mtu):
    """What our stack did is called for by what came to it."""
    came = wire.arrivals(of_stack, packets, VM, mtu)
    naks = wire.naks(of_stack, OURS)[0x60]
    text = f"{naks} NAKs sent for {came.early} packets ahead of one that was missing"
    check((naks > 0) == (came.early > 0) and naks <= came.early, text)
    sent = wire.arrivals(of_stack, of_stack, OURS, mtu)
    check_equal(sent.early, 0, "requests that we sent ahead of one that we had not sent")
    # All that either side has sent has come, at last.
    check_equal(wire.arrivals(packets, of_stack, OURS, mtu).fresh, sent.fresh, "new requests that reached rxe")
    check_equal(came.fresh, wire.arrivals(packets, packets, VM, mtu).fresh, "new requests that reached us")


def icrcs_are_right(file):
    done = subprocess.run([CHECK_CAPTURE, file], capture_output=True, text=True, check=False)
    check(done.returncode == 0, done.stdout + done.stderr)


def every_byte_with_faults(rig, script, server):
    with faults(rig, script, 1024) as run_flags:
        every_byte(rig, ["-b", "-q", 2, "-n", 64], server, 4, 1024, PATIENT_UNDER_LOSS, run_flags)


def perftest_with_faults(rig, program, script, server):
    flags = ["-n", 20] + ([] if program in NO_SIZES else ["-s", 10001])
    with faults(rig, script, 1024) as run_flags:
        perftest(rig, program, flags, server, 4, 1024, PATIENT_UNDER_LOSS, run_flags)


def pingpong_with_faults(rig, script, server):
    with faults(rig, script, 1024) as run_flags:
        pingpong(rig, "ibv_rc_pingpong", server, 4, 1024, 50, run_flags)


# Who has all it waits for may leave, and then does not answer what is sent again: the end is without loss.
EARLY_LOSS = "drop rate=5% times=20\n"


def cases_with_faults(rig):
    for server in (VM, OURS):
        side = f"server {name_of(server)}"
        for title, script in FAULTS.items():
            yield f"every byte: {title}, {side}", lambda f=script, s=server: every_byte_with_faults(rig, f, s)
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_atomic_bw"):
            title = "5 % lost"
            yield f"{program}: {title}, {side}", lambda p=program, f=FAULTS[title], s=server: perftest_with_faults(
                rig, p, f, s)
        yield f"ibv_rc_pingpong: 5 % lost, {side}", lambda s=server: pingpong_with_faults(rig, EARLY_LOSS, s)


class Provoked:
    """One run of roci-provoke, from which each of its cases is judged."""

    def __init__(self, rig, server):
        self.rig, self.server = rig, server
        self.outcomes = None

    def run(self):
        with captured(self.rig) as packets:
            with Conversation(self.rig, PROVOKE, [], self.server) as pair:
                pair.finish()
                texts = pair.client.text(), pair.server.text()
        self.outcomes = provoked.outcomes(*texts, packets, self.server)

    def judge(self, name):
        check(self.outcomes is not None, "there is no run to judge")
        differences = provoked.RXE_RESPONDS if self.server == VM else provoked.RXE_REQUESTS
        wanted = differences.get(name, provoked.WANTED[name])
        got = self.outcomes[name]
        check_equal(got if wanted.naks is not None else got._replace(naks=None), wanted)


def cases_provoked(rig):
    for server in (VM, OURS):
        text = f"responder {name_of(server)}"
        runs = Provoked(rig, server)
        yield f"provoke, {text}: all", runs.run
        for name in provoked.WANTED:
            yield f"provoke, {text}: {name}", lambda r=runs, n=name: r.judge(n)


def cases(rig):
    yield from cases_without_loss(rig)
    yield from cases_with_faults(rig)
    yield from cases_provoked(rig)
    yield from rdmacm_interop.cases(rig, CHECK_CAPTURE)


def is_wanted(name):
    return not WANTED or any(text in name for text in WANTED)


def main():
    if rig_module.why_not():
        return tap.run([("against Linux's RoCE driver in a VM", rig_module.skip_if_impossible)])
    with Rig(ROCI, [VERIFY, PROVOKE]) as rig:
        return tap.run((name, run) for name, run in cases(rig) if is_wanted(name))


sys.exit(main())
