"""Whatever can arrive on a real segment, frame by frame, each with the counter that is to tell of it. Frames are put
together here from the specifications; on an interface they are sent as root."""

import ipaddress
import socket
import struct
import time
import zlib
from typing import NamedTuple

ROCE_PORT = 4791
IPV4, ARP, VLAN, IPV6, MAC_CONTROL, ROCE_V1 = 0x0800, 0x0806, 0x8100, 0x86DD, 0x8808, 0x8915
SEND_ONLY, CNP, NO_OPCODE = 0x04, 0x81, 0xDF
UDP, FRAGMENT_HEADER = 17, 44
QPN_OF_NOBODY = 0xFFFFFE


class Hosts(NamedTuple):
    """The stack under test and whoever sends to it."""

    mac: bytes
    v4: str
    v6: str
    sender_v4: str
    sender_v6: str
    sender_mac: bytes = bytes.fromhex("020000000bad")


class Case(NamedTuple):
    name: str
    frame: bytes
    counter: str
    kernel_takes: bool  # on an interface that is shared with the kernel it never gets to the stack


def checksum(data):
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ethernet(hosts, ether_type, body, to=None):
    return (to or hosts.mac) + hosts.sender_mac + struct.pack(">H", ether_type) + body


def ipv4(hosts, payload, flags=0x4000, wrong_checksum=0):
    addresses = socket.inet_aton(hosts.sender_v4) + socket.inet_aton(hosts.v4)
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, flags, 64, UDP, 0) + addresses
    return head[:10] + struct.pack(">H", checksum(head) ^ wrong_checksum) + head[12:] + payload


def ipv6(hosts, payload, next_header=UDP):
    addresses = ipaddress.ip_address(hosts.sender_v6).packed + ipaddress.ip_address(hosts.v6).packed
    return struct.pack(">IHBB", 6 << 28, len(payload), next_header, 64) + addresses + payload


def bth(opcode=SEND_ONLY, pkey=0xFFFF, qpn=QPN_OF_NOBODY):
    return struct.pack(">BBHII", opcode, 0, pkey, qpn, 1)


def udp(body, port=ROCE_PORT, length=None):
    return struct.pack(">HHHH", 0xC000, port, 8 + len(body) if length is None else length, 0) + body


def roce(hosts, transport, v6=False, wrong_icrc=0, **ip_options):
    """An IP packet with the BTH and what follows it, and the ICRC (IBTA A17.3.3)."""
    build = ipv6 if v6 else ipv4
    packet = build(hosts, udp(transport + bytes(4)), **ip_options)
    masked = bytearray(packet[:-4])
    l4 = 40 if v6 else 20
    for at in (0, 1, 2, 3, 7) if v6 else (1, 8, 10, 11):  # traffic class, flow label, hop limit; TOS, TTL, checksum
        masked[at] |= 0x0F if v6 and at == 0 else 0xFF
    masked[l4 + 6 : l4 + 8] = b"\xff\xff"  # UDP checksum
    masked[l4 + 8 + 4] = 0xFF  # FECN, BECN and reserved bits of the BTH
    return packet[:-4] + struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked) ^ wrong_icrc)


def cases(hosts):
    def v4(transport, **options):
        return ethernet(hosts, IPV4, roce(hosts, transport, **options))

    whole = roce(hosts, bth() + bytes(64))
    arp = struct.pack(">HHBBH", 1, IPV4, 6, 4, 1) + hosts.sender_mac + socket.inet_aton(hosts.sender_v4) + bytes(6)
    fragment = struct.pack(">BBHI", UDP, 0, 1, 7) + udp(bth() + bytes(4))
    yield Case("a QP that is not there", v4(bth() + bytes(64)), "rx_unknown_qp", False)
    yield Case("the same over IPv6", ethernet(hosts, IPV6, roce(hosts, bth(), v6=True)), "rx_unknown_qp", False)
    yield Case("the same in a VLAN", ethernet(hosts, VLAN, struct.pack(">HH", 0x6005, IPV4) + whole), "rx_unknown_qp",
               False)
    yield Case("a wrong ICRC", v4(bth() + bytes(64), wrong_icrc=1), "rx_icrc_encapsulated", False)
    yield Case("a foreign P_Key", v4(bth(pkey=0x9234)), "rx_bad_pkey", False)
    yield Case("an opcode that is not there", v4(bth(opcode=NO_OPCODE)), "rx_unknown_opcode", False)
    yield Case("a CNP for a QP that is not there", v4(bth(opcode=CNP) + bytes(16)), "rp_cnp_ignored", False)
    yield Case("a frame cut short", ethernet(hosts, IPV4, whole[:60]), "rx_truncated", False)
    yield Case("a UDP length of its own", ethernet(hosts, IPV4, ipv4(hosts, udp(bth() + bytes(4), length=9))),
               "rx_malformed", False)
    yield Case("a wrong IP checksum", v4(bth(), wrong_checksum=1), "rx_malformed", False)
    yield Case("a fragment", v4(bth(), flags=0x2000), "rx_fragment", True)
    yield Case("an IPv6 fragment", ethernet(hosts, IPV6, ipv6(hosts, fragment, FRAGMENT_HEADER)), "rx_fragment", True)
    yield Case("another UDP port", ethernet(hosts, IPV4, ipv4(hosts, udp(bytes(32), port=4790))), "rx_not_roce", True)
    yield Case("RoCE v1", ethernet(hosts, ROCE_V1, bytes(40) + bth() + bytes(4)), "rx_roce_v1", True)
    yield Case("PFC", ethernet(hosts, MAC_CONTROL, struct.pack(">HH8H", 0x0101, 0xFF, *[0xFFFF] * 8) + bytes(26),
                               bytes.fromhex("0180c2000001")), "rx_pause_ignored", True)
    yield Case("ARP for somebody else", ethernet(hosts, ARP, arp + socket.inet_aton("198.18.79.250"), b"\xff" * 6),
               "port_rx_arp", True)
    yield Case("malformed ARP", ethernet(hosts, ARP, arp[:9], b"\xff" * 6), "port_rx_bad_neighbour", True)


def send(interface, frames):
    """At a pace that an idle stack keeps up with."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as out:
        out.bind((interface, 0))
        for number, frame in enumerate(frames):
            out.send(frame)
            if number % 20 == 19:
                time.sleep(0.01)
