"""rdma_cm and rsockets between Linux and our stack: connections made and ended by either side."""

import contextlib
import json
import subprocess
import time

import wire
from ends import Ends
from rig import ADDRESSES, ADDRESSES_V6, OURS, START_SECONDS, VM
from tap import check

SECONDS = 120


def address_of(side, ip):
    return (ADDRESSES if ip == 4 else ADDRESSES_V6)[side]


def listens(rig, side):
    if side == VM:
        return "LISTEN" in rig.in_vm("rdma resource show cm_id")
    stacks = json.loads(subprocess.check_output([rig.roci, "stat", "--json"], text=True))
    return any(stack["link"] == "netdev:host0" and stack["counters"]["cm_listens"] > 0 for stack in stacks)


class Talk(Ends):
    """A server and a client, which ends by itself; {server} in their commands is the server's address."""

    def __init__(self, rig, server_side, ip, server, client):
        super().__init__()
        self.rig = rig
        address = address_of(server_side, ip)
        server, client = ([str(word).format(server=address) for word in command] for command in (server, client))
        self.ends["server"] = rig.start(server_side, server, SECONDS)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not listens(rig, server_side):
                alive = self.ends["server"].process.poll() is None and time.monotonic() < deadline
                check(alive, f"the server does not listen\n{self.explain()}")
                time.sleep(0.1)
            self.ends["client"] = rig.start(OURS if server_side == VM else VM, client, SECONDS)
        except BaseException:
            self.end()
            raise

    def finish(self, status=0):
        check(self.ends["client"].wait(SECONDS) == status, f"not done well\n{self.explain()}")
        check(self.ends["server"].wait(SECONDS) is not None, f"the server goes on\n{self.explain()}")


@contextlib.contextmanager
def captured(rig, check_capture):
    packets = []
    with wire.Capture(rig, "cm") as capture:
        yield packets
    packets += capture.check(check_capture)


def talk(rig, check_capture, server_side, ip, server, client):
    """Every packet of it is right by its ICRC and to tshark."""
    with captured(rig, check_capture) as packets:
        with Talk(rig, server_side, ip, server, client) as pair:
            pair.finish()
    check(packets, "no packets")


PROGRAMS = {
    "rping -V": (["rping", "-s", "-a", "{server}", "-C", 10, "-S", 3000, "-V"],
                 ["rping", "-c", "-a", "{server}", "-C", 10, "-S", 3000, "-V"]),
    "ucmatose": (["ucmatose", "-b", "{server}"], ["ucmatose", "-s", "{server}"]),
    "ucmatose, 10 connections": (["ucmatose", "-b", "{server}", "-c", 10], ["ucmatose", "-s", "{server}", "-c", 10]),
    "udaddy": (["udaddy", "-b", "{server}"], ["udaddy", "-s", "{server}"]),
    "rstream": (["rstream", "-b", "{server}", "-S", 10001, "-C", 10, "-I", 5, "-T", "v"],
                ["rstream", "-s", "{server}", "-S", 10001, "-C", 10, "-I", 5, "-T", "v"]),
    "ib_send_bw -R": (["ib_send_bw", "-R", "-F", "-n", 20, "-s", 10001],
                      ["ib_send_bw", "-R", "-F", "-n", 20, "-s", 10001, "{server}"]),
    "ib_write_bw -R": (["ib_write_bw", "-R", "-F", "-n", 20, "-s", 10001],
                       ["ib_write_bw", "-R", "-F", "-n", 20, "-s", 10001, "{server}"]),
}


def refused(rig, server_side):
    """A port that nobody listens on: a REJ with reason 8."""
    with Talk(rig, server_side, 4, ["rping", "-s", "-p", 7000],
              ["rping", "-c", "-a", "{server}", "-p", 7001, "-C", 1]) as pair:
        check(pair.ends["client"].wait(SECONDS) not in (0, None), pair.explain())
        check("REJECTED, error 8" in pair.ends["client"].text(), pair.explain())


def cases(rig, check_capture):
    for side in (VM, OURS):
        name = "rxe" if side == VM else "ours"
        for title, (server, client) in PROGRAMS.items():
            for ip in (4, 6):
                if ip == 6 and title.endswith("-R"):
                    continue  # it asks for IPv4 unless told otherwise
                yield (f"{title}: server {name}, IPv{ip}",
                       lambda s=side, i=ip, a=server, b=client: talk(rig, check_capture, s, i, a, b))
        yield f"rping where nobody listens: server {name}", lambda s=side: refused(rig, s)
