#!/usr/bin/env python3
"""Every kind of packet, lost, damaged, doubled and late, on a live cable: what both ends then put on the wire, as their
captures tell. TAP. Arguments: paths of roci and roci-verify; and, to run only some cases, texts that their names hold.

tests/sim has the same table in virtual time, where the clock can be held to both of its bounds."""

import os
import pathlib
import sys
import tempfile
from typing import NamedTuple

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import roce_capture as roce  # noqa: E402
import tap  # noqa: E402
from pair import Pair  # noqa: E402
from tap import check, check_equal  # noqa: E402

ROCI, VERIFY = sys.argv[1:3]
WANTED = sys.argv[3:]
HANG_SECONDS = 120

MTU = 1024
FOUR_PACKETS = 3 * MTU + 100
ONE_PACKET = 100
# What a NAK or a gap reveals must not wait for the timer, which is far away then; what only the timer can reveal must
# not come before it. How late it may strike a busy machine decides.
FAR_TIMEOUT, NEAR_TIMEOUT = 18, 14
TIMER_WAITS = []  # in units of T, to be told at the end
DELAY_MS = 250
LINGER_MS = 250
# Receives come so late that the first request finds none, however slow the machine is today. The responder's RNR timer
# is roci-verify's code 12, 0.64 ms (IBTA 9.7.5.2.8, table 45).
RECEIVE_AFTER_MS = 300
RNR_TIMER_NS = 640_000


def timeout_ns(code):
    return 4096 << code


MISHAPS = {
    "dropped": "drop",
    "damaged": "corrupt=431",  # the last bit of the PSN
    "late": f"delay={DELAY_MS}ms",
    "doubled": "duplicate",
}


class Operation(NamedTuple):
    """One operation of the client, and what it sends if nothing happens."""

    name: str  # as roci-verify calls it
    bytes: int
    requests: int
    responses: int


def message(name, size):
    return Operation(name, size, -(-size // MTU), 1)


READ4 = Operation("read", FOUR_PACKETS, 1, 4)
READ1 = Operation("read", ONE_PACKET, 1, 1)
SWAP = Operation("cas", 8, 1, 1)
ADD = Operation("add", 8, 1, 1)

# (what the fault script calls the packet, the operation, which of its packets that is)
REQUESTS = [
    row
    for plain, imm, name in (("send", "sendimm", "SEND"), ("write", "writeimm", "WRITE"))
    for row in (
        (f"RC_{name}_FIRST", message(plain, FOUR_PACKETS), 0),
        (f"RC_{name}_MIDDLE", message(plain, FOUR_PACKETS), 1),
        (f"RC_{name}_LAST", message(plain, FOUR_PACKETS), 3),
        (f"RC_{name}_ONLY", message(plain, ONE_PACKET), 0),
        (f"RC_{name}_FIRST", message(imm, FOUR_PACKETS), 0),
        (f"RC_{name}_MIDDLE", message(imm, FOUR_PACKETS), 1),
        (f"RC_{name}_LAST_IMM", message(imm, FOUR_PACKETS), 3),
        (f"RC_{name}_ONLY_IMM", message(imm, ONE_PACKET), 0),
    )
] + [("RC_READ_REQUEST", READ4, 0), ("RC_CMP_SWAP", SWAP, 0), ("RC_FETCH_ADD", ADD, 0)]

RESPONSES = [
    ("RC_READ_RESP_FIRST", READ4, 0),
    ("RC_READ_RESP_MIDDLE", READ4, 1),
    ("RC_READ_RESP_LAST", READ4, 3),
    ("RC_READ_RESP_ONLY", READ1, 0),
    ("RC_ATOMIC_ACK", SWAP, 0),
    ("RC_ATOMIC_ACK", ADD, 0),
]

ACKS = [("ack", message("send", FOUR_PACKETS), 0), ("ack", message("write", FOUR_PACKETS), 0)]
RNR_NAKS = [("rnr-nak", message("send", ONE_PACKET), 0), ("rnr-nak", message("writeimm", ONE_PACKET), 0)]
NAKS = [("nak", message("send", FOUR_PACKETS), 0), ("nak", message("write", FOUR_PACKETS), 0)]


class Run:
    """One operation with one fault: what each end sent, as its own capture tells."""

    def __init__(self, operation, timeout, server_faults="", client_faults="", lingers=False, receive_after_ms=0):
        self.operation = operation
        self.timeout = timeout
        flags = ["--ops", operation.name, "-s", operation.bytes, "-n", 1, "-g", 1, "-I", 0, "-m", MTU, "-u", timeout]
        flags += ["--receive-after", receive_after_ms] if receive_after_ms else []
        flags += ["--linger", LINGER_MS] if lingers else []
        with tempfile.TemporaryDirectory() as folder:
            ends = {"server": server_faults, "client": client_faults}
            options = {name: self._options(folder, name, faults) for name, faults in ends.items()}
            with Pair(ROCI, VERIFY, flags, server_run=options["server"], client_run=options["client"]) as pair:
                pair.finish(HANG_SECONDS)
                # The bytes of both ends, and that nothing was executed twice, is the client's own care.
                for end in (pair.client, pair.server):
                    check(" 0 errors" in end.text(), pair.explain())
            sent = {name: self._sent(f"{folder}/{name}.pcapng") for name in ends}
        self.requests = [packet for packet in sent["client"] if packet.is_request]
        self.responses = [packet for packet in sent["server"] if not packet.is_request]
        self.first_psn = self.requests[0].psn
        self.again = self.requests[operation.requests :]
        self.acks = [packet for packet in self.responses if packet.is_ack]
        self.rnr_naks = [packet for packet in self.responses if packet.is_rnr_nak]
        self.sequence_naks = [packet for packet in self.responses if packet.is_sequence_nak]

    @staticmethod
    def _options(folder, name, faults):
        options = ["--capture", f"{folder}/{name}.pcapng"]
        if faults:
            file = pathlib.Path(folder, f"{name}.faults")
            file.write_text(faults)
            options += ["--faults", file]
        return options

    @staticmethod
    def _sent(path):
        return [packet for packet in roce.read(path) if packet.direction == roce.OUTBOUND]

    def offset(self, packet):
        return (packet.psn - self.first_psn) & 0xFFFFFF

    def __str__(self):
        lines = [f"{packet.ns / 1e6 % 1e5:.3f} ms {packet}" for packet in sorted(self.requests + self.responses)]
        return "\n".join(lines)


def expect_sent_again(run, psn_offset, count):
    check_equal([run.offset(packet) for packet in run.again[:1]], [psn_offset], f"rewind point\n{run}")
    check_equal(len(run.again), count, f"packets sent again\n{run}")


def expect_timer_waited(run, since):
    waited = run.again[0].ns - since.ns
    TIMER_WAITS.append(waited / timeout_ns(run.timeout))
    check(waited >= timeout_ns(run.timeout), f"sent again after {waited / 1e6} ms\n{run}")


def expect_answers(run, restart, asked_again):
    """READ responses and results of atomics come in order and to the end. Asked again, the responder starts again with
    what it is asked for; what it has not sent by then, it sends only once (9.7.5.1.4)."""
    count = run.operation.responses
    last = count - 1
    offsets = [run.offset(response) for response in run.responses]
    check(offsets[:1] == [0] and offsets[-1:] == [last], f"responses do not go from first to last\n{run}")
    check(len(offsets) <= count + asked_again * (count - restart), f"too many responses\n{run}")
    for before, after in zip(offsets, offsets[1:]):
        check(after in (before + 1, restart), f"response {after} behind {before}\n{run}")


def is_doubled(mishap):
    return mishap == "doubled"


def has_data_response(operation):
    return operation.name in ("read", "cas", "add")


def request_case(packet, operation, index, mishap):
    leaves_a_gap = index + 1 < operation.requests
    timeout = FAR_TIMEOUT if leaves_a_gap or is_doubled(mishap) else NEAR_TIMEOUT
    row = f"{MISHAPS[mishap]} nth=1 opcode={packet} dir=rx\n"
    run = Run(operation, timeout, server_faults=row, lingers=mishap in ("late", "doubled"))
    if has_data_response(operation):
        expect_answers(run, restart=0, asked_again=mishap in ("late", "doubled"))
    else:
        check_equal([run.offset(ack) for ack in run.acks][-1:], [operation.requests - 1], f"PSN of the last ACK\n{run}")
    if is_doubled(mishap):
        check_equal((run.again, run.sequence_naks), ([], []), f"sent again, and NAKs\n{run}")
    elif leaves_a_gap:
        # One NAK for one gap, for the first PSN that is missing (IBTA 9.7.5.2.8).
        check_equal([run.offset(nak) for nak in run.sequence_naks], [index], f"PSNs of NAKs\n{run}")
        expect_sent_again(run, index, operation.requests - index)
    else:
        # What nobody can notice is the timer's: all that is not acknowledged goes again (9.7.6.1.3).
        check_equal(run.sequence_naks, [], f"NAKs\n{run}")
        expect_sent_again(run, 0, operation.requests)
        expect_timer_waited(run, run.requests[operation.requests - 1])


def response_case(packet, operation, index, mishap):
    leaves_a_gap = index + 1 < operation.responses
    timeout = FAR_TIMEOUT if leaves_a_gap or is_doubled(mishap) else NEAR_TIMEOUT
    row = f"{MISHAPS[mishap]} nth=1 opcode={packet} dir=rx\n"
    run = Run(operation, timeout, client_faults=row, lingers=mishap == "late")
    check_equal(run.sequence_naks, [], f"NAKs\n{run}")
    if is_doubled(mishap):
        check_equal(run.again, [], f"sent again\n{run}")
        return
    expect_answers(run, restart=index, asked_again=not is_doubled(mishap))
    # A gap in the responses is an implied NAK; only what is missing is asked for again (9.7.5.1.2, 9.7.5.1.3).
    expect_sent_again(run, index, 1)
    if operation.name == "read":
        check_equal(run.again[0].dma_length, operation.bytes - index * MTU, f"bytes asked for again\n{run}")
    if not leaves_a_gap:
        expect_timer_waited(run, run.requests[0])


def ack_case(packet, operation, _, mishap):
    row = f"{MISHAPS[mishap]} nth=1 opcode={packet} dir=rx\n"
    timeout = FAR_TIMEOUT if is_doubled(mishap) else NEAR_TIMEOUT
    run = Run(operation, timeout, client_faults=row, lingers=mishap == "late")
    check_equal(run.sequence_naks, [], f"NAKs\n{run}")
    if is_doubled(mishap):
        check_equal((run.again, len(run.acks)), ([], 1), f"sent again, and ACKs\n{run}")
        return
    # The duplicate is acknowledged again, and not executed again (9.7.5.1.4): the bytes were checked.
    expect_sent_again(run, 0, operation.requests)
    expect_timer_waited(run, run.requests[operation.requests - 1])
    check_equal([run.offset(ack) for ack in run.acks], [operation.requests - 1] * 2, f"PSNs of ACKs\n{run}")


def nak_case(packet, operation, _, mishap):
    """The second packet is lost, and then something happens to the NAK for it."""
    lost = "drop nth=1 opcode=RC_SEND_MIDDLE,RC_WRITE_MIDDLE dir=rx\n"
    row = f"{MISHAPS[mishap]} nth=1 opcode={packet} dir=rx\n"
    timeout = FAR_TIMEOUT if is_doubled(mishap) else NEAR_TIMEOUT
    run = Run(operation, timeout, server_faults=lost, client_faults=row, lingers=mishap == "late")
    check_equal([run.offset(nak) for nak in run.sequence_naks], [1], f"PSNs of NAKs\n{run}")
    if is_doubled(mishap):
        expect_sent_again(run, 1, operation.requests - 1)
        return
    expect_sent_again(run, 0, operation.requests)
    expect_timer_waited(run, run.requests[operation.requests - 1])


def rnr_nak_case(packet, operation, _, mishap):
    """No receive is posted yet. With the RNR NAK gone it is as if the request had been lost."""
    row = f"{MISHAPS[mishap]} nth=1 opcode={packet} dir=rx\n"
    timeout = FAR_TIMEOUT if is_doubled(mishap) else NEAR_TIMEOUT
    run = Run(operation, timeout, client_faults=row, lingers=mishap == "late", receive_after_ms=RECEIVE_AFTER_MS)
    check_equal(run.sequence_naks, [], f"NAKs\n{run}")
    check(run.rnr_naks and run.again, f"RNR NAKs, and sent again\n{run}")
    # Each refusal costs one retransmission, of the packet that was refused; the last one is acknowledged (9.7.5.2.8).
    check_equal({run.offset(sent) for sent in run.requests + run.rnr_naks}, {0}, f"PSNs\n{run}")
    check_equal((len(run.again), len(run.acks)), (len(run.rnr_naks), 1), f"sent again, and ACKs\n{run}")
    if not is_doubled(mishap):
        expect_timer_waited(run, run.requests[0])
    # A thread that loses its core right after it looked at the clock makes one wait look short, but not all together.
    heard = list(zip(run.rnr_naks, run.again))[0 if is_doubled(mishap) else 1 :]
    waited = sum(again.ns - refusal.ns for refusal, again in heard)
    check(waited >= RNR_TIMER_NS * len(heard), f"sent again sooner than the RNR timer\n{run}")


def cases():
    for kind, rows in (
        (request_case, REQUESTS), (response_case, RESPONSES), (ack_case, ACKS), (nak_case, NAKS),
        (rnr_nak_case, RNR_NAKS),
    ):
        for packet, operation, index in rows:
            for mishap in MISHAPS:
                yield (f"{packet} of {operation.name} {mishap}",
                       lambda k=kind, p=packet, o=operation, i=index, m=mishap: k(p, o, i, m))


status = tap.run((name, run) for name, run in cases() if not WANTED or any(text in name for text in WANTED))
if TIMER_WAITS:
    print(f"# the timer struck {len(TIMER_WAITS)} times, after {min(TIMER_WAITS):.2f} T to {max(TIMER_WAITS):.2f} T")
sys.exit(status)
