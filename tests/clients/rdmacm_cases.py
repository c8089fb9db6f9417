"""The programs of rdmacm-utils and perftest's -R: servers found by their address on the cable."""

import filecmp
import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

from ends import Ends
from pair import End
from tap import check

START_SECONDS = 30
SERVER_V4, SERVER_V6 = "198.18.0.1", "fd00::1"
LOSS = "drop rate=10%\nduplicate rate=5%\nreorder=3 rate=5%\n"


class CmPair(Ends):
    """A server and a client on a cable of their own; the server is the first on it, and so has the first address."""

    def __init__(self, roci, server, client, run_flags=()):
        super().__init__()
        self.roci = roci
        self.link = f"cable:test.{os.getpid()}.cm.{time.monotonic_ns()}"
        self.server = self.ends["server"] = End(roci, self.link, server, run_flags)
        try:
            self._wait_for_server()
            self.client = self.ends["client"] = End(roci, self.link, client, run_flags)
        except BaseException:
            self.end()
            raise

    def _wait_for_server(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.server.process.poll() is None:
            stacks = json.loads(subprocess.check_output([self.roci, "stat", "--json"], text=True))
            if any(stack["link"] == self.link and stack["counters"]["cm_listens"] > 0 for stack in stacks):
                return
            time.sleep(0.02)
        raise AssertionError(f"the server does not listen\n{self.server.text()}")


class Cases:
    def __init__(self, roci, full, seconds, needs):
        self.roci, self.full, self.seconds, self.needs = roci, full, seconds, needs

    def both_well(self, server, client, run_flags=(), wanted=""):
        """Both ends end well."""
        self.needs(server[0])
        with CmPair(self.roci, server, client, run_flags) as pair:
            for end in (pair.client, pair.server):
                check(end.wait(self.seconds) == 0, f"not done well\n{pair.explain()}")
            check(wanted in pair.client.text(), f"no {wanted!r}\n{pair.explain()}")

    def client_well(self, server, client, run_flags=()):
        """The client ends well; the server serves until it is told to end."""
        self.needs(server[0])
        with CmPair(self.roci, server, client, run_flags) as pair:
            check(pair.client.wait(self.seconds) == 0, f"not done well\n{pair.explain()}")
            check(pair.server.process.poll() is None, f"the server has ended\n{pair.explain()}")

    def with_loss(self, server, client):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "faults"
            file.write_text(LOSS)
            self.both_well(server, client, ["--faults", str(file)])

    def refused(self):
        """Nobody listens on that port."""
        self.needs("rping")
        server = ["rping", "-s", "-p", 7000]
        with CmPair(self.roci, server, ["rping", "-c", "-a", SERVER_V4, "-p", 7001, "-C", 1]) as pair:
            check(pair.client.wait(self.seconds) not in (0, None), pair.explain())
            check("RDMA_CM_EVENT_REJECTED, error 8" in pair.client.text(), pair.explain())

    def killed(self):
        """A client that is killed in the middle does not keep the server from serving the next."""
        self.needs("rping")
        ping = ["rping", "-c", "-a", SERVER_V4, "-V"]
        with CmPair(self.roci, ["rping", "-s", "-P"], [*ping, "-C", 100000000]) as pair:
            time.sleep(1)
            check(pair.client.process.poll() is None, pair.explain())
            pair.client.signal(signal.SIGKILL)
            pair.client.process.wait()
            following = End(self.roci, pair.link, [*ping, "-C", 10])
            try:
                check(following.wait(self.seconds) == 0, f"{following.text()}\n{pair.explain()}")
            finally:
                following.end()

    def missed(self):
        """The server of a client that is killed hears of it, though nobody says so."""
        self.needs("rping")
        endless = ["-C", 100000000]
        with CmPair(self.roci, ["rping", "-s", *endless], ["rping", "-c", "-a", SERVER_V4, *endless]) as pair:
            time.sleep(1)
            check(pair.client.process.poll() is None, pair.explain())
            pair.client.signal(signal.SIGKILL)
            check(pair.server.wait(self.seconds) is not None, pair.explain())
            check("server DISCONNECT EVENT" in pair.server.text(), pair.explain())

    def nobody(self):
        """An address that nobody has."""
        self.needs("rping")
        end = End(self.roci, f"cable:test.{os.getpid()}.cm.nobody", ["rping", "-c", "-a", "198.18.9.1", "-C", 1])
        try:
            check(end.wait(self.seconds) not in (0, None), end.text())
            check("RDMA_CM_EVENT_ADDR_ERROR, error -113" in end.text(), end.text())
        finally:
            end.end()

    def one_host(self):
        """Three processes with one address, of which each listens on a port of its own, and a client of all."""
        self.needs("rping")
        link = f"cable:test.{os.getpid()}.cm.host"
        ends = [End(self.roci, link, ["rping", "-s", "-p", 7000 + i, "-C", 10], ["--host", "alpha"]) for i in range(3)]
        try:
            for i in (2, 0, 1):
                with_retry = f"until rping -c -a {SERVER_V4} -p {7000 + i} -C 10 -V; do sleep 0.2; done"
                client = End(self.roci, link, ["sh", "-c", with_retry], ["--host", "beta"])
                ends.append(client)
                check(client.wait(self.seconds) == 0, client.text())
            for end in ends:
                check(end.wait(self.seconds) == 0, end.text())
        finally:
            for end in ends:
                end.end()

    def multicast(self, group, receiver, sender):
        """mckey; whoever sends does not know when the other joins, so it sends until that has all it waits for."""
        self.needs("mckey")
        link = f"cable:test.{os.getpid()}.cm.{time.monotonic_ns()}"
        receiving = End(self.roci, link, ["mckey", "-m", group, "-b", receiver])
        try:
            deadline = time.monotonic() + self.seconds
            while receiving.process.poll() is None and time.monotonic() < deadline:
                time.sleep(0.5)
                sending = End(self.roci, link, ["mckey", "-m", group, "-s", "-b", sender])
                sending.wait(self.seconds)
                sending.end()
            check(receiving.wait(0) == 0 and "return status 0" in receiving.text(), receiving.text())
        finally:
            receiving.end()

    def copied(self):
        """rcopy, whose server goes on serving."""
        self.needs("rcopy")
        with tempfile.TemporaryDirectory() as folder:
            source, copy = pathlib.Path(folder) / "source", pathlib.Path(folder) / "copy"
            source.write_bytes(os.urandom(10_000_001))
            self.client_well(["rcopy"], ["rcopy", source, f"{SERVER_V4}:{copy}"])
            check(filecmp.cmp(source, copy, shallow=False), "the copy differs")

    def all(self):
        for size in (64, 60000) if not self.full else (1, 64, 1000, 4097, 60000):
            for address in (SERVER_V4, SERVER_V6):
                flags = ["-S", size, "-C", 100, "-V"]
                yield (f"rping -V -S {size} of {address}",
                       lambda a=address, f=flags: self.both_well(
                           ["rping", "-s", "-a", a, *f], ["rping", "-c", "-a", a, *f]))
        yield "rping with QPs of its own", lambda: self.both_well(
            ["rping", "-s", "-q", "-C", 10], ["rping", "-c", "-q", "-a", SERVER_V4, "-C", 10, "-V"])
        yield "rping of a persistent server", lambda: self.client_well(
            ["rping", "-s", "-P"], ["rping", "-c", "-a", SERVER_V4, "-C", 10, "-V"])
        yield "rping: messages and packets lost, doubled, reordered", lambda: self.with_loss(
            ["rping", "-s", "-C", 10], ["rping", "-c", "-a", SERVER_V4, "-C", 10, "-V"])
        yield "rping where nobody listens", self.refused
        yield "rping of an address that nobody has", self.nobody
        yield "rping of three processes of one host", self.one_host
        yield "rping, the server of a client that is killed", self.missed
        yield "rping, killed in the middle", self.killed
        for flags in ([], ["-m"], ["-c", 100], ["-t", 8]):
            yield (f"ucmatose {' '.join(map(str, flags))}".strip(),
                   lambda f=flags: self.both_well(
                       ["ucmatose", *f], ["ucmatose", "-s", SERVER_V4, *f], wanted="return status 0"))
        yield "ucmatose over IPv6", lambda: self.both_well(
            ["ucmatose", "-b", SERVER_V6], ["ucmatose", "-s", SERVER_V6], wanted="return status 0")
        yield "ucmatose, 1,000 connections at a time", lambda: self.both_well(
            ["ucmatose", "-c", 1000, "-C", 1, "-S", 10],
            ["ucmatose", "-s", SERVER_V4, "-c", 1000, "-C", 1, "-S", 10], wanted="return status 0")
        yield "cmtime, 1,000 connections", lambda: self.client_well(
            ["cmtime", "-c", 1000], ["cmtime", "-s", SERVER_V4, "-c", 1000])
        yield "rdma_client and rdma_server", lambda: self.both_well(
            ["rdma_server"], ["rdma_client", "-s", SERVER_V4], wanted="end 0")
        for address in (SERVER_V4, SERVER_V6):
            yield f"udaddy of {address}", lambda a=address: self.both_well(
                ["udaddy", "-b", a, "-c", 5], ["udaddy", "-s", a, "-c", 5], wanted="return status 0")
        for group, receiver, sender in (("239.1.1.1", SERVER_V4, "198.18.0.2"), ("ff15::1:2", SERVER_V6, "fd00::2")):
            yield f"mckey in {group}", lambda g=group, r=receiver, s=sender: self.multicast(g, r, s)
        yield "ib_send_bw -R -c UD", lambda: self.both_well(
            ["ib_send_bw", "-R", "-c", "UD", "-n", 200], ["ib_send_bw", "-R", "-c", "UD", "-n", 200, SERVER_V4])
        yield from self.rsockets()
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_send_lat", "ib_write_lat", "ib_atomic_bw"):
            yield f"{program} -R", lambda p=program: self.both_well(
                [p, "-R", "-n", 200], [p, "-R", "-n", 200, SERVER_V4], wanted="#bytes")
        yield "ib_send_bw -R -T", lambda: self.both_well(
            ["ib_send_bw", "-R", "-n", 200, "-T", 96], ["ib_send_bw", "-R", "-n", 200, "-T", 96, SERVER_V4])

    def rsockets(self):
        some = ["-C", 20, "-I", 20]
        for kind in "banrv":
            for size in (64, 10001, 1000000):
                flags = ["-T", kind, "-S", size, *some]
                yield (f"rstream -T {kind} -S {size}",
                       lambda f=flags: self.both_well(
                           ["rstream", *f], ["rstream", "-s", SERVER_V4, *f], wanted="custom"))
        if self.full:
            yield "rstream, its own sizes", lambda: self.both_well(
                ["rstream", "-S", "all", *some], ["rstream", "-s", SERVER_V4, "-S", "all", *some])
        yield "rstream over IPv6", lambda: self.both_well(
            ["rstream", "-b", SERVER_V6, "-S", 10001, *some],
            ["rstream", "-s", SERVER_V6, "-S", 10001, *some], wanted="custom")
        few = ["-T", "v", "-S", 10001, "-C", 5, "-I", 5]
        yield "rstream: messages and packets lost, doubled, reordered", lambda: self.with_loss(
            ["rstream", *few], ["rstream", "-s", SERVER_V4, *few])
        for size in (64, 100000):
            flags = ["-T", "v", "-S", size, "-C", 10, "-I", 10]
            yield (f"riostream -S {size}",
                   lambda f=flags: self.both_well(["riostream", *f], ["riostream", "-s", SERVER_V4, *f]))
        yield "rcopy, the copy equal", self.copied
