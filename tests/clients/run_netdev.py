#!/usr/bin/env python3
"""Real clients over kernel interfaces: a veth pair between two network namespaces that this makes and removes. TAP.
Arguments: paths of roci, roci-verify and gone, then `quick` or `full`; and, to run only some cases, texts that their
names hold."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402
from pair import End, Pair, Place, free_port  # noqa: E402
from tap import check, check_equal  # noqa: E402

ROCI, VERIFY, GONE, SUITE = sys.argv[1:5]
WANTED = sys.argv[5:]
FULL = SUITE == "full"
HANG_SECONDS = 300
KILLS = 100 if FULL else 8

INTERFACE = "port0"
HOSTS = [f"roci-test-{os.getpid()}-{name}" for name in "ab"]
V4 = ["198.18.77.1", "198.18.77.2"]
V6 = ["fd00:77::1", "fd00:77::2"]


def sh(*command, check_status=True):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=60)
    if check_status:
        check_equal(result.returncode, 0, f"{' '.join(map(str, command))}: {result.stderr.strip()}")
    return result.stdout


def inside(host):
    return ["ip", "netns", "exec", HOSTS[host]]


def make_hosts():
    for host in HOSTS:
        sh("ip", "netns", "add", host)
    # 4200 carries RoCE's largest packets over IPv6.
    sh("ip", "-n", HOSTS[0], "link", "add", INTERFACE, "mtu", 4200, "type", "veth",
       "peer", "name", INTERFACE, "mtu", 4200, "netns", HOSTS[1])
    for host, v4, v6 in zip(HOSTS, V4, V6):
        sh("ip", "-n", host, "address", "add", f"{v4}/24", "dev", INTERFACE)
        sh("ip", "-n", host, "address", "add", f"{v6}/64", "dev", INTERFACE, "nodad")
        for name in ("lo", INTERFACE):
            sh("ip", "-n", host, "link", "set", name, "up")


def remove_hosts():
    for host in HOSTS:
        sh("ip", "netns", "delete", host, check_status=False)


def why_not():
    if os.geteuid() != 0:
        return "needs root, for network namespaces"
    if shutil.which("ip") is None:
        return "ip (iproute2) is not installed"
    probe = subprocess.run(["unshare", "--net", "true"], capture_output=True, text=True)
    return "" if probe.returncode == 0 else f"no network namespaces here: {probe.stderr.strip()}"


PLACE = Place(f"netdev:{INTERFACE}", inside(0), inside(1), V4[0])


def pair(program, flags, run_flags=()):
    return Pair(ROCI, program, flags, server_run=run_flags, client_run=run_flags, place=PLACE)


def perftest(program, flags):
    with pair(program, flags) as both:
        both.finish(HANG_SECONDS)
        rows = [line.split() for line in both.client.text().splitlines() if re.match(r"^ *\d+ +\d+ +[\d.]+", line)]
        check(rows and all(float(row[-1]) > 0 for row in rows), both.explain())


def verify(flags):
    with pair(VERIFY, flags) as both:
        both.finish(HANG_SECONDS)
        for end in (both.client, both.server):
            check(re.search(r"verify: \d+ operations, \d+ bytes checked, 0 errors", end.text()), both.explain())


def devinfo():
    end = End(ROCI, PLACE.link, ["ibv_devinfo", "-v"], prefix=inside(0))
    try:
        check_equal(end.wait(HANG_SECONDS), 0, end.text())
        for text in ("PORT_ACTIVE", f"::ffff:{V4[0]}", V6[0], "active_mtu:\t\t4096"):
            check(text in end.text(), f"no {text!r} in\n{end.text()}")
    finally:
        end.end()


def unreachable_sent(host):
    """ICMP and ICMPv6 messages "destination unreachable" that a host's kernel has sent."""
    counts = sh(*inside(host), "cat", "/proc/net/snmp", "/proc/net/snmp6")
    names, values = (line.split() for line in counts.splitlines() if line.startswith("Icmp: "))
    v6 = re.search(r"Icmp6OutDestUnreachs\s+(\d+)", counts)
    return int(values[names.index("OutDestUnreachs")]) + int(v6.group(1))


def kernel_goes_on():
    """Ping and a TCP stream beside a transfer; and the kernel answers none of the transfer's packets."""
    before = [unreachable_sent(host) for host in range(2)]
    with pair("ib_write_bw", ["-D", 4]) as both:
        ping = sh(*inside(1), "ping", "-c", 10, "-i", 0.2, "-W", 2, V4[0])
        check(" 0% packet loss" in ping, ping)
        received = tcp_stream(1 << 20)
        check_equal(received, 1 << 20, "bytes through TCP")
        both.finish(HANG_SECONDS)
    check_equal([unreachable_sent(host) for host in range(2)], before, "ICMP unreachable sent")


def tcp_stream(size):
    take = ("import socket,sys; s=socket.create_server(('0.0.0.0',18077)); print('ready',flush=True); c,_=s.accept();"
            "n=0\nwhile d:=c.recv(65536): n+=len(d)\nprint(n)")
    give = f"import socket; s=socket.create_connection(('{V4[0]}',18077)); s.sendall(bytes({size}))"
    taker = subprocess.Popen([*inside(0), sys.executable, "-c", take], stdout=subprocess.PIPE, text=True)
    try:
        check_equal(taker.stdout.readline(), "ready\n", "the TCP server")
        sh(*inside(1), sys.executable, "-c", give)
        return int(taker.communicate(timeout=60)[0])
    finally:
        taker.kill()
        taker.wait()


def stacks():
    return [stack for stack in json.loads(sh(ROCI, "stat", "--json")) if stack["link"] == PLACE.link]


def stat():
    with pair("ib_write_bw", ["-D", 3]) as both:
        deadline = time.monotonic() + HANG_SECONDS
        while not (len(stacks()) == 2 and all(stack["counters"]["port_rx_frames"] > 100 for stack in stacks())):
            check(time.monotonic() < deadline, f"{stacks()}\n{both.explain()}")
            time.sleep(0.1)
        addresses = sorted(stack["addresses"] for stack in stacks())
        check_equal(addresses, [[v4, v6] for v4, v6 in zip(V4, V6)], "addresses")
        both.finish(HANG_SECONDS)
    check_equal(stacks(), [], "stacks left behind")


def sleeps():
    """Whoever waits for frames is woken by them, and looks for none until then."""
    server = End(ROCI, PLACE.link, ["ib_write_bw", "-p", free_port()], prefix=inside(0))
    try:
        deadline = time.monotonic() + HANG_SECONDS
        while not stacks():
            check(time.monotonic() < deadline, server.text())
            time.sleep(0.1)
        time.sleep(0.5)  # it looks a little before it sleeps
        before = stacks()[0]["counters"]["turns"]
        time.sleep(2)
        turns = stacks()[0]["counters"]["turns"] - before
        check(turns < 200, f"{turns} turns in two idle seconds")
    finally:
        server.end()


def kills():
    """Whoever is killed leaves nothing that the next one stumbles over."""
    for number in range(KILLS):
        with pair("ib_write_bw", ["-s", 65536, "-n", 1000000]) as both:
            time.sleep(0.2 + 0.1 * (number % 5))
            for end in (both.server, both.client):
                end.signal(signal.SIGKILL)
    verify(["-n", 32])


def self_loop():
    """QPs of one process: their frames never reach the interface."""
    end = End(ROCI, PLACE.link, [GONE], prefix=inside(0))
    try:
        check_equal(end.wait(HANG_SECONDS), 0, end.text())
    finally:
        end.end()


def cases():
    # First, for the kernels then still look if their IPv6 addresses are unique, and ask for no neighbour.
    yield "every byte: IPv6 on an interface that has just come up", lambda: verify(["-x", 1, "-n", 64])
    yield "ibv_devinfo -v", devinfo
    for title, flags in (("IPv4", ["-x", 0]), ("IPv6", ["-x", 1]), ("MTU 1024", ["-m", 1024]), ("16 QPs", ["-q", 16]),
                         ("both directions", ["-b"]), ("events", ["-e"]), ("UC", ["-c", "uc", "-d", 4]),
                         ("UC, IPv6", ["-c", "uc", "-x", 1, "-d", 4]), ("UD", ["-c", "ud", "-d", 4]),
                         ("UD, IPv6", ["-c", "ud", "-x", 1, "-d", 4])):
        yield f"every byte: {title}", lambda f=flags: verify([*f, "-n", 64])
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        for flags in ([], ["-a", "-n", 20], ["-m", 1024, "-x", 1]):
            short = [*flags] if "-n" in flags else [*flags, "-n", 200]
            yield f"{program} {' '.join(map(str, short))}", lambda p=program, f=short: perftest(p, f)
    for program in ("ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat"):
        yield f"{program}", lambda p=program: perftest(p, ["-n", 200])
    yield "a multicast group", lambda: perftest("ib_send_lat", ["-c", "UD", "-g", "-x", 1, "-n", 200])
    yield "ib_atomic_bw", lambda: perftest("ib_atomic_bw", ["-n", 200])
    yield "the kernel goes on beside it", kernel_goes_on
    yield "roci stat", stat
    yield "an idle stack sleeps", sleeps
    yield "a device and itself", self_loop
    yield f"{KILLS} times kill -9 of both ends", kills


def main():
    reason = why_not()
    if reason:
        return tap.skip_all(reason)
    # `finally` has to run when the test is ended from outside, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        make_hosts()
        return tap.run((name, run) for name, run in cases() if not WANTED or any(text in name for text in WANTED))
    finally:
        remove_hosts()


sys.exit(main())
