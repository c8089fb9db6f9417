"""The files that Linux has of an RDMA device, as programs under `roci run` see them."""

import os
import re
import signal
import socket

from pair import End, Pair
from tap import Skip, check, check_equal

DEVICE = "/sys/class/infiniband/roci0"

# Prints what verbs says of row 0, then what the file says, for a device that this process has open.
ROW_0 = f"""
import ctypes
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
context = verbs.ibv_open_device(ctypes.c_void_p(verbs.ibv_get_device_list(None)[0]))
gid = ctypes.create_string_buffer(16)
assert verbs.ibv_query_gid(ctypes.c_void_p(context), 1, 0, gid) == 0
print(gid.raw.hex())
port = "{DEVICE}/ports/1/"
for name in ("gids/0", "gid_attrs/types/0", "gid_attrs/ndevs/0", "state", "counters/port_rcv_packets"):
    print(open(port + name).read(), end="")
"""

# Lists interfaces as libc gives them, with librdmacm loaded or not: name, index by name, then what each entry holds.
INTERFACES = """
import ctypes, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
if "rdmacm" in sys.argv: ctypes.CDLL("librdmacm.so.1")
class Entry(ctypes.Structure): pass
Entry._fields_ = [("next", ctypes.POINTER(Entry)), ("name", ctypes.c_char_p), ("flags", ctypes.c_uint),
                  ("address", ctypes.c_void_p), ("netmask", ctypes.c_void_p), ("broadcast", ctypes.c_void_p)]
def text(address):
    if not address: return "-"
    family = ctypes.c_ushort.from_address(address).value
    raw = ctypes.string_at(address, 28)
    if family == socket.AF_INET: return socket.inet_ntop(family, raw[4:8])
    if family == socket.AF_INET6: return socket.inet_ntop(family, raw[8:24])
    return raw[12:18].hex(":")
for _ in range(3):
    lines = []
    head = ctypes.POINTER(Entry)()
    assert libc.getifaddrs(ctypes.byref(head)) == 0
    at = head
    while at:
        one = at.contents
        lines.append(f"{one.name.decode()} {one.flags & 0x1043:x} {text(one.address)} {text(one.netmask)} "
                     f"{text(one.broadcast)}")
        at = one.next
    libc.freeifaddrs(head)
print("\\n".join(lines))
index = libc.if_nametoindex(b"roci0")
name = ctypes.create_string_buffer(16)
print("index", index != 0, libc.if_indextoname(index, name) is not None and name.value.decode())
"""

# Children of a process of which another thread reads such files all the time, and which do so themselves.
FORKS = f"""
import os, threading
over = False
def look():
    while not over: open("{DEVICE}/node_guid").close()
thread = threading.Thread(target=look)
thread.start()
for i in range(200):
    child = os.fork()
    if child == 0:
        open("{DEVICE}/node_guid").close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
over = True
thread.join()
"""


class Cases:
    def __init__(self, roci, seconds, needs):
        self.roci, self.seconds, self.needs = roci, seconds, needs

    def said_by(self, command, run_flags=()):
        """The output of a command that ends well, and leaves no folder behind."""
        end = End(self.roci, f"cable:test.{os.getpid()}.view", command, run_flags)
        try:
            check(end.wait(self.seconds) == 0, end.text())
            gone = f"roci-view.{os.getuid()}.{end.process.pid}"
            check(gone not in os.listdir("/dev/shm"), f"{gone} is left")
            return end.text()
        finally:
            end.end()

    def identity(self):
        """Files and verbs tell the same."""
        self.needs("ibv_devinfo")
        devinfo = self.said_by(["ibv_devinfo", "-v"])
        for name in ("node_guid", "sys_image_guid", "fw_ver"):
            wanted = re.search(rf"{name}:\s+(\S+)", devinfo).group(1)
            check_equal(self.said_by(["cat", f"{DEVICE}/{name}"]).strip(), wanted, name)

    def found(self):
        """By listing, by pattern, through links, and as what they are."""
        check_equal(self.said_by(["ls", "/sys/class/infiniband", "/dev/infiniband"]).split(),
                    ["/dev/infiniband:", "rdma_cm", "uverbs0", "/sys/class/infiniband:", "roci0"])
        kind = self.said_by(["stat", "-L", "-c", "%F", "/dev/infiniband/uverbs0"]).strip()
        check_equal(kind, "character special file")
        check_equal(self.said_by(["readlink", "-f", DEVICE]).strip(), "/sys/devices/virtual/rocinante/infiniband/roci0")
        check_equal(self.said_by(["bash", "-c", f"echo {DEVICE}/node*"]).split(),
                    [f"{DEVICE}/node_desc", f"{DEVICE}/node_guid", f"{DEVICE}/node_type"])
        known = "roci0" in [name for _, name in socket.if_nameindex()]
        check_equal("net" in self.said_by(["ls", f"{DEVICE}/device/"]).split(), known, "an interface is there")
        check_equal(self.said_by(["ls", "/sys/class/infiniband"], ["--name", "other1"]).strip(), "other1")
        check("uverbs0" in self.said_by(["ls", "-l", "/sys/class/infiniband_verbs"]), "no uverbs0")

    def row_of_open_device(self):
        self.needs("python3")
        lines = self.said_by(["python3", "-c", ROW_0], ["--ip", "198.18.7.9/24"]).splitlines()
        wanted = "00000000000000000000ffffc6120709"  # ::ffff:198.18.7.9
        check_equal(lines[0], wanted)
        check_equal(lines[1].replace(":", ""), wanted)
        check_equal(lines[2:], ["RoCE v2", "roci0", "4: ACTIVE", "0"])

    def counters(self):
        """perftest reads the counter files before and after: each 4096-byte packet of 100 messages of 64 KiB."""
        self.needs("ib_write_bw")
        names = "hw_counters/rx_packets,counters/port_xmit_packets"
        with Pair(self.roci, "ib_write_bw", ["-n", 100, "-s", 65536, "-m", 4096, "-W", names]) as pair:
            pair.finish(self.seconds)
            sent = re.search(r"port_xmit_packets=(\d+)", pair.client.text())
            received = re.search(r"rx_packets=(\d+)", pair.server.text())
            check(sent and int(sent.group(1)) >= 1600, pair.explain())
            check(received and int(received.group(1)) >= 1600, pair.explain())

    def abandoned(self):
        """What a process that was killed has left goes when the next one needs such files, or opens the device."""
        for next_one in (["ls", DEVICE], ["ibv_devinfo"]):
            self.needs(next_one[0])
            killed = End(self.roci, f"cable:test.{os.getpid()}.view", ["bash", "-c", f"echo {DEVICE}/*; kill -9 $$"])
            try:
                check(killed.wait(self.seconds) == -signal.SIGKILL, killed.text())
                name = f"roci-view.{os.getuid()}.{killed.process.pid}"
                check(name in os.listdir("/dev/shm"), "nothing was left: this tests nothing")
                self.said_by(next_one)
                check(name not in os.listdir("/dev/shm"), f"{name} is left")
            finally:
                killed.end()

    def forks(self):
        self.needs("python3")
        self.said_by(["python3", "-c", FORKS])
        self.said_by(["ls", DEVICE])  # takes away what the children have left

    def interface(self):
        """The device's addresses among the kernel's, for programs with librdmacm only."""
        self.needs("python3")
        if "roci0" in [name for _, name in socket.if_nameindex()]:
            raise Skip("the kernel has an interface called roci0")
        addresses = ["--ip", "198.18.7.9/24", "--ip", "fd00::709/48"]
        lines = self.said_by(["python3", "-c", INTERFACES, "rdmacm"], addresses).splitlines()
        check_equal([line.split(maxsplit=1)[1] for line in lines if line.startswith("roci0 ")],
                    ["1043 02:00:c6:12:07:09 - ff:ff:ff:ff:ff:ff",  # up, broadcast, running, multicast
                     "1043 198.18.7.9 255.255.255.0 198.18.7.255", "1043 fd00::709 ffff:ffff:ffff:: -"])
        check(any(line.startswith("lo ") for line in lines), f"the kernel's own are gone: {lines}")
        check_equal(lines[-1], "index True roci0")
        lines = self.said_by(["python3", "-c", INTERFACES], addresses).splitlines()
        check_equal([line for line in lines if line.startswith("roci0 ")], [])
        check_equal(lines[-1].split()[1], "False")

    def all(self):
        yield "files of the device: as verbs says", self.identity
        yield "files of the device: found in every way", self.found
        yield "files of the device: rows of the GID table", self.row_of_open_device
        yield "files of the device: counters in perftest", self.counters
        yield "files of the device: left by a process that was killed", self.abandoned
        yield "interface of the device: getifaddrs", self.interface
        yield "files of the device: in children of a process with threads", self.forks
