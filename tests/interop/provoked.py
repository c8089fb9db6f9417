"""What a responder owes a request that it must not execute, by the IBTA specification (volume 1, release 1.4), and what
was seen: the cases of provoke.cpp."""

import collections
import re

import wire
from tap import check

REFUSED, SUCCESS, LOC_LEN_ERR, LOC_QP_OP_ERR, LOC_PROT_ERR, WR_FLUSH_ERR = -1, 0, 1, 2, 4, 5
REM_INV_REQ_ERR, REM_ACCESS_ERR, REM_OP_ERR, RETRY_EXC_ERR, RNR_RETRY_EXC_ERR = 9, 10, 11, 12, 13
RNR_NAK, INVALID_REQUEST, REMOTE_ACCESS, REMOTE_OPERATIONAL = 0x20, 0x61, 0x62, 0x63
QPS_RTS, QPS_ERR, GONE = 3, 6, -1

# naks: how often which syndrome; requester and responder: statuses of completions; state of the responder's QP.
Outcome = collections.namedtuple("Outcome", "naks requester responder state")


def failed(nak, requester_status, responder_statuses=()):
    return Outcome({nak: 1}, (requester_status, WR_FLUSH_ERR), tuple(responder_statuses), QPS_ERR)


def not_ready(times):
    """An RNR NAK for each attempt: the responder has done nothing wrong and stays as it is."""
    return Outcome({RNR_NAK: times}, (RNR_RETRY_EXC_ERR, WR_FLUSH_ERR), (), QPS_RTS)


ACCESS = failed(REMOTE_ACCESS, REM_ACCESS_ERR)  # 9.7.4.1.5, table 58 class C
INVALID = failed(INVALID_REQUEST, REM_INV_REQ_ERR)
FINE = Outcome({}, (SUCCESS, SUCCESS), (), QPS_RTS)

WANTED = {
    "write-other-key": ACCESS,
    "write-no-such-key": ACCESS,
    "read-other-key": ACCESS,
    "read-no-such-key": ACCESS,
    "atomic-other-key": ACCESS,
    "write-key-of-other-pd": ACCESS,
    "read-key-of-other-pd": ACCESS,
    "write-deregistered": ACCESS,
    "read-deregistered": ACCESS,
    "write-past-end": ACCESS,
    "write-before-start": ACCESS,
    "write-long-past-end": ACCESS,
    "read-past-end": ACCESS,
    "read-long-past-end": ACCESS,
    "atomic-past-end": ACCESS,
    "write-0-bytes-other-key": FINE,  # C9-88: the R_Key of an empty request is not checked
    "read-0-bytes-other-key": FINE,
    "write-region-without-right": ACCESS,
    "read-region-without-right": ACCESS,
    "atomic-region-without-right": ACCESS,
    "write-qp-without-right": INVALID,  # 9.7.4.1.4
    "read-qp-without-right": INVALID,
    "atomic-qp-without-right": INVALID,
    "atomic-unaligned": INVALID,  # 9.4.5, o9-17
    "read-no-resources": INVALID,  # 9.7.4.1.3
    "send-too-long": failed(INVALID_REQUEST, REM_INV_REQ_ERR, [LOC_LEN_ERR]),  # 9.7.4.1.6
    "send-long-too-long": failed(INVALID_REQUEST, REM_INV_REQ_ERR, [LOC_LEN_ERR]),
    "send-to-wrong-local-key": failed(REMOTE_OPERATIONAL, REM_OP_ERR, [LOC_PROT_ERR]),  # 9.7.5.2.7
    "send-no-receive-retry-0": not_ready(1),  # 9.7.5.2.8
    "send-no-receive-retry-2": not_ready(3),
    "write-imm-no-receive-retry-1": not_ready(2),
    "send-receive-comes-late": FINE._replace(naks=None, responder=(SUCCESS,)),  # as many RNR NAKs as it takes
    "write-nobody-there": Outcome({}, (RETRY_EXC_ERR, WR_FLUSH_ERR), (), GONE),  # 9.9.2.1
}

# Where rxe (Linux 6.1) differs, as responder and as requester: see docs/interop.md.
RXE_RESPONDS = {
    "send-too-long": failed(REMOTE_OPERATIONAL, REM_OP_ERR, [LOC_QP_OP_ERR]),
    "send-long-too-long": failed(REMOTE_OPERATIONAL, REM_OP_ERR, [LOC_QP_OP_ERR]),
    "send-to-wrong-local-key": failed(REMOTE_OPERATIONAL, REM_OP_ERR, [LOC_QP_OP_ERR]),
}
RXE_REQUESTS = {
    "atomic-unaligned": Outcome({}, (REFUSED,), (), QPS_RTS),
}

LINE = re.compile(r"provoke: (\S+) qp=(\S+) (requester|responder)=(\S*)(?: state=(\S+) events=(\S*))?")


def outcomes(client_text, server_text, packets, server):
    """{case: Outcome} of a run, from what both ends printed and the packets. NAKs of a sequence error are left out:
    what follows an RNR NAK draws them."""
    seen = {}
    for text in (client_text, server_text):
        for name, qp, role, statuses, state, _ in LINE.findall(text):
            case = seen.setdefault(name, {})
            case[role] = tuple(map(int, filter(None, statuses.split(","))))
            if role == "requester":
                case["naks"] = dict(wire.naks([p for p in packets if p.qp == int(qp, 16)], server))
                case["naks"].pop(0x60, None)
            else:
                case["state"] = int(state)
    check(set(seen) == set(WANTED), f"cases {set(seen) ^ set(WANTED)}\n{client_text}\n{server_text}")
    return {name: Outcome(case["naks"], case["requester"], case["responder"], case["state"])
            for name, case in seen.items()}
