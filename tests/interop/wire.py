"""What was on the wire: a capture at the VM's tap, as tshark reads it."""

import collections
import signal
import subprocess

from rig import ADDRESSES, ADDRESSES_V6, OURS, VM, run
from tap import check

FIELDS = ("frame.time_epoch", "ip.src", "ipv6.src", "infiniband.bth.opcode", "infiniband.bth.destqp",
          "infiniband.bth.psn", "infiniband.aeth.syndrome", "infiniband.reth.dmalen", "_ws.malformed")
# tshark takes some payloads for messages of other protocols, and then calls them malformed.
PAYLOADS = ("infiniband.eoib", "rpcordma", "smb_direct", "smc", "lnet", "iser", "nvme-rdma", "infiniband_sdp", "fcoib")

READ_REQUEST, ACKNOWLEDGE = 12, 17
RESPONSES = range(13, 19)
Packet = collections.namedtuple("Packet", "seconds source opcode qp psn syndrome dma_bytes")


class Capture:
    """A pcap of the RoCE packets at the tap of a rig's VM, from here until stop(): the VM has these, and no others."""

    def __init__(self, rig, name):
        self.file = rig.folder / f"{name}.pcap"
        self.log = open(rig.folder / f"{name}.log", "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            ["ip", "netns", "exec", rig.wire, "tcpdump", "-i", "vm0", "--immediate-mode", "-s", "9000", "-B", "65536",
             "-U", "-Z", "root", "-w", self.file, "udp port 4791"], stdin=subprocess.DEVNULL, stderr=self.log)
        self._wait_for_text("listening on")

    def _wait_for_text(self, text):
        while self.process.poll() is None:
            if text in self._text():
                return
            try:
                self.process.wait(0.05)
            except subprocess.TimeoutExpired:
                pass
        raise AssertionError(f"tcpdump: {self._text()}")

    def _text(self):
        self.log.seek(0)
        return self.log.read()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(30)
            check("\n0 packets dropped by kernel" in self._text(), f"tcpdump: {self._text()}")
        self.log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def check(self, check_capture):
        """Every ICRC is right and tshark finds nothing malformed. The packets."""
        icrc = subprocess.run([check_capture, self.file], capture_output=True, text=True, check=False)
        check(icrc.returncode == 0, icrc.stdout + icrc.stderr)
        return read(self.file)


def read(file):
    """The packets of a capture, as tshark sees them."""
    command = ["tshark", "-r", file, "-T", "fields", "-E", "occurrence=f", "--disable-heuristic", "eth_over_ib"]
    command += [word for name in PAYLOADS for word in ("--disable-protocol", name)]
    command += [word for field in FIELDS for word in ("-e", field)]
    packets = []
    for number, line in enumerate(run(*command).splitlines(), 1):
        seconds, v4, v6, opcode, qp, psn, syndrome, dma_bytes, malformed = line.split("\t")
        check(opcode != "" and malformed == "", f"packet {number} is not as it should be: {line!r}")
        source = OURS if OURS in (side_of(v4), side_of(v6)) else VM
        packets.append(Packet(float(seconds), source, int(opcode), int(qp, 0), int(psn),
                              int(syndrome, 0) if syndrome else None, int(dma_bytes or "0", 0)))
    check(packets, "no packets")
    return packets


def roce_only(file):
    """A copy of a capture without what is not RoCE v2, of which there may be some from before the filter was set."""
    copy = file.with_suffix(".roce.pcap")
    run("tcpdump", "-r", file, "-w", copy, "udp port 4791")
    return copy


def side_of(address):
    for table in (ADDRESSES, ADDRESSES_V6):
        for side, known in table.items():
            if known == address:
                return side
    return None


def naks(packets, source):
    """How often each NAK was sent by `source`, by syndrome. RNR NAKs count as 0x20 whatever their timer is."""
    counts = collections.Counter()
    for packet in packets:
        if packet.source == source and packet.opcode == ACKNOWLEDGE and packet.syndrome >> 5 in (1, 3):
            counts[0x20 if packet.syndrome >> 5 == 1 else packet.syndrome] += 1
    return counts


def ahead(psn, of):
    """psn - of, as a number from -2^23 to 2^23 - 1."""
    return (psn - of + (1 << 23)) % (1 << 24) - (1 << 23)


Arrivals = collections.namedtuple("Arrivals", "fresh repeated early")


def requests(packets, source):
    return [packet for packet in packets if packet.source == source and packet.opcode not in RESPONSES]


def arrivals(packets, as_sent, source, mtu):
    """Requests of `source` in the order in which they came: how many were the next one, seen before, or ahead of one
    that was missing. `as_sent` are packets as captured where they were sent: the first one may not have come."""
    expected = {}
    for packet in requests(as_sent, source):
        expected.setdefault(packet.qp, packet.psn)
    fresh = repeated = early = 0
    for packet in requests(packets, source):
        distance = ahead(packet.psn, expected[packet.qp])
        if distance < 0:
            repeated += 1
        elif distance > 0:
            early += 1
        else:
            fresh += 1
            # A READ request takes as many PSNs as its response has packets.
            width = max(1, -(-packet.dma_bytes // mtu)) if packet.opcode == READ_REQUEST else 1
            expected[packet.qp] = (packet.psn + width) % (1 << 24)
    return Arrivals(fresh, repeated, early)
