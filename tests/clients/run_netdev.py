#!/usr/bin/env python3
"""Real clients over kernel interfaces: a veth pair between two network namespaces that this makes and removes. TAP.
Arguments: paths of roci, roci-verify and gone, then `quick` or `full`; and, to run only some cases, texts that their
names hold."""

import collections
import contextlib
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

import hostile  # noqa: E402
import tap  # noqa: E402
from pair import End, Pair, Place, free_port  # noqa: E402
from tap import check, check_equal  # noqa: E402

ROCI, VERIFY, GONE, SUITE = sys.argv[1:5]
WANTED = sys.argv[5:]
FULL = SUITE == "full"
HANG_SECONDS = 120
KILLS = 100 if FULL else 8

HOSTS = [f"roci-test-{os.getpid()}-{name}" for name in "ab"]
# 4200 carries RoCE's largest packets over IPv6; AF_XDP, whose frames lie in one page, wants less.
INTERFACES = {"port0": 4200, "port1": 3400}
HERE = pathlib.Path(__file__).resolve().parent


def v4(interface, host):
    return f"198.18.7{interface[-1]}.{host + 1}"


def v6(interface, host):
    return f"fd00:7{interface[-1]}::{host + 1}"


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
        sh("ip", "-n", host, "link", "set", "lo", "up")
    for interface, mtu in INTERFACES.items():
        sh("ip", "-n", HOSTS[0], "link", "add", interface, "mtu", mtu, "type", "veth",
           "peer", "name", interface, "mtu", mtu, "netns", HOSTS[1])
        for number, host in enumerate(HOSTS):
            sh("ip", "-n", host, "address", "add", f"{v4(interface, number)}/24", "dev", interface)
            sh("ip", "-n", host, "address", "add", f"{v6(interface, number)}/64", "dev", interface, "nodad")
            sh("ip", "-n", host, "link", "set", interface, "up")


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


def place(interface, driver=""):
    return Place(f"netdev:{interface}{driver}", inside(0), inside(1), v4(interface, 0))


# By the driver that moves the frames.
PACKET = place("port0")
NATIVE = place("port1")
GENERIC = place("port1", "/af_xdp_generic")


def interface_of(where):
    return where.link.split(":")[1].split("/")[0]


# Devices that no kernel knows: addresses are given, and found on the wire.
OWN_IPS = [["--ip", f"198.18.79.{n}/24", "--ip", f"fd00:79::{n}/64"] for n in (1, 2)]
SOCKET = f"/tmp/roci-test-{os.getpid()}.vhost"
# The side that connects goes on trying, the other waits for it: it does not matter which is there first.
VHOST = Place(f"vdev:net_vhost0,iface={SOCKET},client=1",
              client_link=f"vdev:net_virtio_user0,path={SOCKET},server=1,queue_size=1024")
TAP = Place("vdev:net_tap0,iface=rtap0", client_link="netdev:rtap0")


def pair(where, program, flags):
    own = OWN_IPS if where is VHOST else [[], []]
    return Pair(ROCI, program, flags, server_run=own[0], client_run=own[1], place=where)


def perftest(where, program, flags):
    with pair(where, program, flags) as both:
        both.finish(HANG_SECONDS)
        rows = [line.split() for line in both.client.text().splitlines() if re.match(r"^ *\d+ +\d+ +[\d.]+", line)]
        check(rows and all(float(row[-1]) > 0 for row in rows), both.explain())


def verify(where, flags):
    with pair(where, VERIFY, flags) as both:
        both.finish(HANG_SECONDS)
        for end in (both.client, both.server):
            check(re.search(r"verify: \d+ operations, \d+ bytes checked, 0 errors", end.text()), both.explain())


def devinfo(where, mtu):
    end = End(ROCI, where.link, ["ibv_devinfo", "-v"], prefix=inside(0))
    try:
        check_equal(end.wait(HANG_SECONDS), 0, end.text())
        interface = interface_of(where)
        for text in ("PORT_ACTIVE", f"::ffff:{v4(interface, 0)}", v6(interface, 0), f"active_mtu:\t\t{mtu}"):
            check(text in end.text(), f"no {text!r} in\n{end.text()}")
    finally:
        end.end()


def unreachable_sent(host):
    """ICMP and ICMPv6 messages "destination unreachable" that a host's kernel has sent."""
    counts = sh(*inside(host), "cat", "/proc/net/snmp", "/proc/net/snmp6")
    names, values = (line.split() for line in counts.splitlines() if line.startswith("Icmp: "))
    v6 = re.search(r"Icmp6OutDestUnreachs\s+(\d+)", counts)
    return int(values[names.index("OutDestUnreachs")]) + int(v6.group(1))


def kernel_goes_on(where):
    """Ping and a TCP stream beside a transfer; and the kernel answers none of the transfer's packets."""
    before = [unreachable_sent(host) for host in range(2)]
    with pair(where, "ib_write_bw", ["-D", 4]) as both:
        ping = sh(*inside(1), "ping", "-c", 10, "-i", 0.2, "-W", 2, where.address)
        check(" 0% packet loss" in ping, ping)
        received = tcp_stream(where.address, 1 << 20)
        check_equal(received, 1 << 20, "bytes through TCP")
        both.finish(HANG_SECONDS)
    check_equal([unreachable_sent(host) for host in range(2)], before, "ICMP unreachable sent")


def tcp_stream(address, size):
    take = ("import socket,sys; s=socket.create_server(('0.0.0.0',18077)); print('ready',flush=True); c,_=s.accept();"
            "n=0\nwhile d:=c.recv(65536): n+=len(d)\nprint(n)")
    give = f"import socket; s=socket.create_connection(('{address}',18077)); s.sendall(bytes({size}))"
    taker = subprocess.Popen([*inside(0), sys.executable, "-c", take], stdout=subprocess.PIPE, text=True)
    try:
        check_equal(taker.stdout.readline(), "ready\n", "the TCP server")
        sh(*inside(1), sys.executable, "-c", give)
        return int(taker.communicate(timeout=60)[0])
    finally:
        taker.kill()
        taker.wait()


def stacks(interface):
    """Those whose port is open."""
    return [stack for stack in json.loads(sh(ROCI, "stat", "--json"))
            if stack["link"] == f"netdev:{interface}" and "driver" in stack]


def wait_for(condition, explain):
    deadline = time.monotonic() + HANG_SECONDS
    while not condition():
        check(time.monotonic() < deadline, explain())
        time.sleep(0.1)


@contextlib.contextmanager
def waiting_server(where, command=None):
    """A stack that nobody talks to, in host 0."""
    server = End(ROCI, where.link, command or ["ib_write_bw", "-p", free_port()], prefix=inside(0))
    try:
        wait_for(lambda: stacks(interface_of(where)), server.text)
        yield server
    finally:
        server.end()


def stat(where):
    interface = interface_of(where)

    def both_receive():
        found = stacks(interface)
        return len(found) == 2 and all(stack["counters"]["port_rx_frames"] > 100 for stack in found)

    with pair(where, "ib_write_bw", ["-D", 3]) as both:
        wait_for(both_receive, lambda: f"{stacks(interface)}\n{both.explain()}")
        addresses = sorted(stack["addresses"] for stack in stacks(interface))
        check_equal(addresses, [[v4(interface, host), v6(interface, host)] for host in range(2)], "addresses")
        check_equal([stack["sees_pfc"] for stack in stacks(interface)], [False, False], "sees_pfc")
        check("pfc: neither seen nor sent" in sh(ROCI, "stat"), "not said of PFC")
        both.finish(HANG_SECONDS)
    check_equal(stacks(interface), [], "stacks left behind")


def driver_of(where):
    with waiting_server(where):
        return stacks(interface_of(where))[0]["driver"]


def drivers():
    """What `auto` takes, and that it says why."""
    check(driver_of(PACKET).startswith("af_packet, as AF_XDP cannot be had: it carries an MTU of"), driver_of(PACKET))
    check_equal(driver_of(NATIVE), "AF_XDP, native, copying", "driver")
    check_equal(driver_of(GENERIC), "AF_XDP, generic, copying", "driver")
    check_equal(driver_of(place("port1", "/af_packet")), "af_packet", "driver")


def without_native():
    """A veth whose peer sends larger frames takes no native program."""
    sh("ip", "-n", HOSTS[1], "link", "set", "port1", "mtu", 4200)
    try:
        driver = driver_of(NATIVE)
        check(driver.startswith("AF_XDP, generic, copying, as native cannot be had: "), driver)
    finally:
        sh("ip", "-n", HOSTS[1], "link", "set", "port1", "mtu", INTERFACES["port1"])


def xdp_of(interface):
    """The id of the XDP program on host 0's interface, or None."""
    link = json.loads(sh("ip", "-json", "-details", "-n", HOSTS[0], "link", "show", interface))[0]
    return link.get("xdp", {}).get("prog", {}).get("id")


def foreign_program():
    """Another's XDP program stays where it is."""
    foreign = subprocess.Popen([*inside(0), sys.executable, HERE / "foreign_xdp.py", "port1"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        check_equal(foreign.stdout.readline(), "attached\n", "the foreign program")
        before = xdp_of("port1")
        check(before is not None, "no program on the interface")
        driver = driver_of(NATIVE)
        check(driver.startswith("af_packet, as AF_XDP cannot be had: attaching the XDP program: "), driver)
        check_equal(xdp_of("port1"), before, "program on the interface")
    finally:
        foreign.kill()
        foreign.wait()


def two_stacks():
    """By af_packet several share an interface; by AF_XDP one has it, and says so to the next."""
    with waiting_server(place("port1", "/af_packet")):
        second = End(ROCI, NATIVE.link, ["ib_write_bw", "-p", free_port()], prefix=inside(0))
        try:
            wait_for(lambda: len(stacks("port1")) == 2, second.text)
            why = "af_packet, as AF_XDP cannot be had: another stack is on the interface"
            check_equal(sorted(stack["driver"] for stack in stacks("port1")), ["af_packet", why], "drivers")
        finally:
            second.end()
    with waiting_server(NATIVE):
        second = End(ROCI, NATIVE.link, ["ibv_devinfo"], prefix=inside(0))
        try:
            check(second.wait(HANG_SECONDS) != 0, second.text())
            check("another stack has the interface by AF_XDP" in second.text(), second.text())
        finally:
            second.end()


def forked():
    """A child that outlives its killed parent holds neither the port nor the program."""
    open_and_fork = ("import ctypes,os,time; v=ctypes.CDLL('libibverbs.so.1');"
                     "v.ibv_get_device_list.restype=ctypes.POINTER(ctypes.c_void_p);"
                     "v.ibv_open_device.argtypes=[ctypes.c_void_p]; v.ibv_open_device(v.ibv_get_device_list(None)[0]);"
                     "child=os.fork(); print(child, flush=True) if child else None; time.sleep(600)")
    parent = End(ROCI, NATIVE.link, [sys.executable, "-c", open_and_fork], prefix=inside(0))
    child = None
    try:
        wait_for(parent.text, parent.text)
        child = int(parent.text())
        check(xdp_of("port1") is not None, "no program on the interface")
        parent.signal(signal.SIGKILL)
        parent.process.wait()
        check_equal(xdp_of("port1"), None, "program on the interface")
        check_equal(driver_of(NATIVE), "AF_XDP, native, copying", "driver")
    finally:
        parent.end()
        if child is not None:
            os.kill(child, signal.SIGKILL)


def follows_kernel():
    """Addresses and the link's state as the kernel has them, and events that tell of it."""
    host = HOSTS[0]
    with waiting_server(PACKET, ["ibv_asyncwatch"]) as watch:
        def heard(what):
            wait_for(lambda: what in watch.text(), lambda: f"no {what!r} in\n{watch.text()}")

        def addresses():
            return stacks("port0")[0]["addresses"]

        own = [v4("port0", 0), v6("port0", 0)]
        sh("ip", "-n", host, "address", "add", "198.18.70.99/24", "dev", "port0")
        heard("IBV_EVENT_GID_CHANGE")
        wait_for(lambda: addresses() == [*own, "198.18.70.99"], addresses)
        sh("ip", "-n", host, "address", "delete", "198.18.70.99/24", "dev", "port0")
        wait_for(lambda: addresses() == own, addresses)
        sh("ip", "-n", host, "link", "set", "port0", "down")
        try:
            heard("IBV_EVENT_PORT_ERR")
        finally:
            sh("ip", "-n", host, "link", "set", "port0", "up")
            sh("ip", "-n", host, "address", "replace", f"{v6('port0', 0)}/64", "dev", "port0", "nodad")
        heard("IBV_EVENT_PORT_ACTIVE")
        wait_for(lambda: addresses() == own, addresses)


# How often each hostile frame is sent.
COPIES = 100


def inject(host, interface, target):
    """Sends each hostile frame to the target from one of the hosts."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import hostile; " \
             "hostile.send(sys.argv[2], [bytes.fromhex(line) for line in sys.stdin])"
    lines = "".join(f"{case.frame.hex()}\n" * COPIES for case in hostile.cases(target))
    subprocess.run([*inside(host), sys.executable, "-c", script, HERE, interface], input=lines, text=True, timeout=60,
                   check=True)


def check_counted(link, target, wanted):
    """Each kind of frame is counted by its reason, and by no other."""
    expected = collections.Counter()
    for case in hostile.cases(target):
        if wanted(case):
            expected[case.counter] += COPIES

    def counted():
        found = [stack for stack in json.loads(sh(ROCI, "stat", "--json")) if stack["link"] == link]
        return {name: found[0]["counters"][name] for name in {case.counter for case in hostile.cases(target)}}

    every = {name: expected[name] for name in counted()}
    # ARP that is malformed is ARP, too.
    every["port_rx_arp"] += every["port_rx_bad_neighbour"]
    wait_for(lambda: all(counted()[name] >= count for name, count in every.items()), lambda: f"{counted()} of {every}")
    # The kernel at the other end may have things to say of its own.
    exact = every.keys() - {"port_rx_arp", "rx_not_roce"}
    check(all(counted()[name] == every[name] for name in exact), f"{counted()} of {every}")


def hostile_segment(where):
    """From the other end of a veth pair; a transfer beside a storm of them goes on."""
    interface = interface_of(where)
    link = json.loads(sh("ip", "-json", "-n", HOSTS[0], "link", "show", interface))[0]
    # From addresses of nobody's: what ARP says of the client's would be believed.
    target = hostile.Hosts(bytes.fromhex(link["address"].replace(":", "")), v4(interface, 0), v6(interface, 0),
                           v4(interface, 65), v6(interface, 65))

    with waiting_server(where):
        inject(1, interface, target)
        check_counted(f"netdev:{interface}", target, lambda case: not case.kernel_takes)
    with pair(where, "ib_write_bw", ["-D", 3]) as both:
        wait_for(lambda: len(stacks(interface)) == 2, both.explain)
        inject(1, interface, target)
        both.finish(HANG_SECONDS)


def hostile_segment_alone():
    """All of them get to a port that no kernel knows."""
    target = hostile.Hosts(bytes.fromhex("0200c6124f01"), "198.18.79.1", "fd00:79::1", "198.18.79.2", "fd00:79::2")
    with tap_address():
        inject(0, "rtap0", target)
        check_counted(TAP.link, target, lambda _: True)
        ping = sh(*inside(0), "ping", "-c", 3, "-i", 0.2, "-W", 5, target.v4)
        check(" 0% packet loss" in ping, ping)


def new_mac():
    """A transfer goes on when the client's interface gets another MAC address."""
    for where, mac in ((PACKET, "02:00:00:00:77:01"), (NATIVE, "02:00:00:00:77:02")):
        with pair(where, "ib_write_bw", ["-D", 5, "-u", 18]) as both:
            interface = interface_of(where)
            wait_for(lambda name=interface: len(stacks(name)) == 2, both.explain)
            time.sleep(2)
            sh("ip", "-n", HOSTS[1], "link", "set", interface, "address", mac)
            sh(*inside(1), "ping", "-c", 1, "-W", 5, where.address)
            both.finish(HANG_SECONDS)


@contextlib.contextmanager
def tap_address():
    """The kernel's end of the tap that a stack makes, once it is there."""
    def give():
        for address in ("198.18.79.2/24", "fd00:79::2/64"):
            command = ["ip", "-n", HOSTS[0], "address", "replace", address, "dev", "rtap0"]
            if subprocess.run(command + ["nodad"] * (":" in address), capture_output=True).returncode != 0:
                return False
        return subprocess.run(["ip", "-n", HOSTS[0], "link", "set", "rtap0", "up"]).returncode == 0

    server = End(ROCI, TAP.link, ["ib_write_bw", "-p", free_port()], OWN_IPS[0], inside(0))
    try:
        wait_for(give, server.text)
        yield server
    finally:
        server.end()


def answers_for_itself():
    """Linux finds a port that no kernel knows, and pings it, over IPv4 and IPv6."""
    with tap_address():
        for address in ("198.18.79.1", "fd00:79::1"):
            ping = sh(*inside(0), "ping", "-c", 3, "-i", 0.2, "-W", 5, "-s", 1000, address)
            check(" 0% packet loss" in ping, ping)
        found = [stack for stack in json.loads(sh(ROCI, "stat", "--json")) if stack["link"] == TAP.link]
        counters = found[0]["counters"]
        check_equal(counters["port_rx_echo"], 6, "pings answered")
        check(counters["port_rx_arp"] >= 1 and counters["port_rx_discovery"] >= 1, counters)


def speaks_to_linux():
    """A tap's two ends: a port that finds its neighbour itself, and one on the kernel's interface."""
    with tap_address() as server:
        client = End(ROCI, TAP.client_link, server.command + ["127.0.0.1"], prefix=inside(0))
        try:
            for end in (client, server):
                check_equal(end.wait(HANG_SECONDS), 0, f"{client.text()}\n{server.text()}")
        finally:
            client.end()


def sleeps(where):
    """Whoever waits for frames is woken by them, and looks for none until then."""
    with waiting_server(where):
        time.sleep(0.5)  # it looks a little before it sleeps
        before = stacks(interface_of(where))[0]["counters"]["turns"]
        time.sleep(2)
        turns = stacks(interface_of(where))[0]["counters"]["turns"] - before
        check(turns < 200, f"{turns} turns in two idle seconds")


def kills(where):
    """Whoever is killed leaves nothing that the next one stumbles over."""
    for number in range(KILLS):
        with pair(where, "ib_write_bw", ["-s", 65536, "-n", 1000000]) as both:
            time.sleep(0.2 + 0.1 * (number % 5))
            for end in (both.server, both.client):
                end.signal(signal.SIGKILL)
    verify(where, ["-n", 32])


def self_loop():
    """QPs of one process: their frames never reach the interface."""
    end = End(ROCI, PACKET.link, [GONE], prefix=inside(0))
    try:
        check_equal(end.wait(HANG_SECONDS), 0, end.text())
    finally:
        end.end()


def perftest_cases(where, title, everything):
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        for flags in ([], ["-a", "-n", 20], ["-m", 1024, "-x", 1])[:3 if everything else 1]:
            short = [*flags] if "-n" in flags else [*flags, "-n", 200]
            yield f"{title}: {program} {' '.join(map(str, short))}", lambda p=program, f=short: perftest(where, p, f)
    for program in ("ib_write_lat", "ib_read_lat", "ib_send_lat", "ib_atomic_lat", "ib_atomic_bw"):
        yield f"{title}: {program}", lambda p=program: perftest(where, p, ["-n", 200])


def cases_by_driver(where, title, everything):
    for name, flags in (("IPv4", ["-x", 0]), ("IPv6", ["-x", 1]), ("MTU 1024", ["-m", 1024]), ("16 QPs", ["-q", 16]),
                        ("both directions", ["-b"]), ("events", ["-e"]), ("UC", ["-c", "uc", "-d", 4]),
                        ("UC, IPv6", ["-c", "uc", "-x", 1, "-d", 4]), ("UD", ["-c", "ud", "-d", 4]),
                        ("UD, IPv6", ["-c", "ud", "-x", 1, "-d", 4]))[:10 if everything else 2]:
        yield f"{title}: every byte: {name}", lambda f=flags: verify(where, [*f, "-n", 64])
    yield from perftest_cases(where, title, everything)
    group = ["-c", "UD", "-g", "-x", 1, "-n", 200]
    yield f"{title}: a multicast group", lambda: perftest(where, "ib_send_lat", group)
    yield f"{title}: the kernel goes on beside it", lambda: kernel_goes_on(where)
    yield f"{title}: an idle stack sleeps", lambda: sleeps(where)
    yield f"{title}: {KILLS} times kill -9 of both ends", lambda: kills(where)


def cases_without_kernel():
    yield "tap: answers for itself", answers_for_itself
    yield "tap: a hostile segment", hostile_segment_alone
    yield "tap: speaks to Linux's end of it", speaks_to_linux
    for name, flags in (("IPv4", ["-x", 0]), ("IPv6", ["-x", 1]), ("both directions", ["-b"])):
        yield f"virtio-user to vhost-user: every byte: {name}", lambda f=flags: verify(VHOST, [*f, "-n", 64])
    yield from perftest_cases(VHOST, "virtio-user to vhost-user", FULL)
    yield f"virtio-user to vhost-user: {KILLS} times kill -9 of both ends", lambda: kills(VHOST)


def cases():
    # First, for the kernels then still look if their IPv6 addresses are unique, and ask for no neighbour.
    yield "every byte: IPv6 on an interface that has just come up", lambda: verify(PACKET, ["-x", 1, "-n", 64])
    yield "ibv_devinfo -v", lambda: devinfo(PACKET, 4096)
    yield "ibv_devinfo -v with AF_XDP", lambda: devinfo(NATIVE, 2048)
    yield "roci stat", lambda: stat(PACKET)
    yield "which driver auto takes", drivers
    yield "a peer's MTU that native XDP does not take", without_native
    yield "another's XDP program", foreign_program
    yield "two stacks on one interface", two_stacks
    yield "a forked child", forked
    yield "addresses and link state follow the kernel", follows_kernel
    yield "a new MAC address", new_mac
    yield "a device and itself", self_loop
    for where, title in ((PACKET, "af_packet"), (NATIVE, "AF_XDP, native"), (GENERIC, "AF_XDP, generic")):
        yield f"{title}: a hostile segment", lambda w=where: hostile_segment(w)
    yield from cases_by_driver(PACKET, "af_packet", True)
    yield from cases_by_driver(NATIVE, "AF_XDP, native", FULL)
    yield from cases_by_driver(GENERIC, "AF_XDP, generic", FULL)
    yield from cases_without_kernel()


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
