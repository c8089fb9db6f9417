"""Reads what `roci run --capture` writes: the RoCE v2 packets of a pcapng file with IPv4 and no VLAN tag."""

import struct
from typing import NamedTuple

SECTION, ENHANCED_PACKET = 0x0A0D0D0A, 6
FLAGS_OPTION = 2
INBOUND, OUTBOUND = 1, 2

SEND_FIRST, SEND_MIDDLE, SEND_LAST, SEND_LAST_IMM, SEND_ONLY, SEND_ONLY_IMM = range(6)
WRITE_FIRST, WRITE_MIDDLE, WRITE_LAST, WRITE_LAST_IMM, WRITE_ONLY, WRITE_ONLY_IMM = range(6, 12)
READ_REQUEST, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK, CMP_SWAP, FETCH_ADD = range(12, 21)
WITH_AETH = (READ_FIRST, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK)
RESPONSES = (READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ACK, ATOMIC_ACK)

BTH_AT = 14 + 20 + 8
EXTENSION_AT = BTH_AT + 12


class Packet(NamedTuple):
    ns: int  # since the epoch
    direction: int
    opcode: int
    psn: int
    ack_requested: bool
    syndrome: int  # None without an AETH
    dma_length: int  # of a READ request, else None

    @property
    def is_request(self):
        return self.opcode not in RESPONSES

    @property
    def is_sequence_nak(self):
        return self.opcode == ACK and self.syndrome == 0x60

    @property
    def is_rnr_nak(self):
        return self.opcode == ACK and self.syndrome >> 5 == 1

    @property
    def is_ack(self):
        return self.opcode == ACK and self.syndrome >> 5 == 0


def _options(data):
    while len(data) >= 4:
        code, length = struct.unpack_from("<HH", data)
        if code == 0:
            return
        yield code, data[4 : 4 + length]
        data = data[4 + (length + 3) // 4 * 4 :]


def _packet(body):
    _, high, low, captured, _ = struct.unpack_from("<IIIII", body)
    frame = body[20 : 20 + captured]
    flags = dict(_options(body[20 + (captured + 3) // 4 * 4 :])).get(FLAGS_OPTION, bytes(4))
    opcode = frame[BTH_AT]
    psn_word = struct.unpack_from(">I", frame, BTH_AT + 8)[0]
    return Packet(
        ns=high << 32 | low,
        direction=struct.unpack("<I", flags)[0] & 3,
        opcode=opcode,
        psn=psn_word & 0xFFFFFF,
        ack_requested=psn_word >> 31 == 1,
        syndrome=frame[EXTENSION_AT] if opcode in WITH_AETH else None,
        dma_length=struct.unpack_from(">I", frame, EXTENSION_AT + 12)[0] if opcode == READ_REQUEST else None,
    )


def read(path):
    """The packets in the order of the file."""
    with open(path, "rb") as file:
        data = file.read()
    at = 0
    packets = []
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == ENHANCED_PACKET:
            packets.append(_packet(data[at + 8 : at + length - 4]))
        at += length
    return packets
