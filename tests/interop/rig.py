"""Linux's RoCE driver in a VM on one end of a wire, our stack on a veth in a namespace on the other; made and removed
here. The wire is a bridge in a third namespace, which is where packets are captured."""

import itertools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))

from ends import Ends  # noqa: E402
from pair import End, Process  # noqa: E402
from tap import Skip, check  # noqa: E402

HARNESS = pathlib.Path(__file__).resolve().parent / "rxe-peer"
VM, OURS = "vm", "ours"
ADDRESSES = {VM: "198.18.0.1", OURS: "198.18.0.2"}
ADDRESSES_V6 = {VM: "fd18::1", OURS: "fd18::2"}
# Index of the GID of each end and IP version. The VM's GID 0 is the link-local one.
GIDS = {(VM, 4): 1, (VM, 6): 2, (OURS, 4): 0, (OURS, 6): 1}
INTERFACE_MTU = 4200  # a RoCE MTU of 4096 fits in
START_SECONDS = 60
NAME = "roci-interop"


def why_not():
    """The reason why there can be no VM here, or None."""
    if os.environ.get("CI"):
        return "CI is set, and this test is not for CI: it emulates a machine"
    if os.geteuid() != 0:
        return "not root: network namespaces and a tap are needed"
    for program in ("qemu-system-x86_64", "socat", "cpio", "depmod", "file", "tcpdump", "tshark", "ip"):
        if shutil.which(program) is None:
            return f"{program} is not installed; tests/interop/rxe-peer/build-image --install brings it"
    if not (cache() / "vmlinuz").exists():
        return f"no kernel in {cache()}: run tests/interop/rxe-peer/build-image --install"
    return None


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(os.environ.get("RXE_PEER_CACHE") or pathlib.Path(base) / "rxe-peer")


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check(done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout


class VmProcess(Process):
    """A command line in the VM. Its exit status is 124 if it was still there after `seconds`."""

    numbers = itertools.count()

    def __init__(self, rig, command, seconds):
        self.rig = rig
        self.pid_file = f"/run/{next(self.numbers)}.pid"
        line = " ".join(str(word) for word in command)
        super().__init__([line], [*rig.peer("exec"), "--timeout", str(seconds), f"echo $$ >{self.pid_file}; exec"])

    def end(self):
        if self.process.poll() is None:
            self.rig.in_vm(f"kill -9 $(cat {self.pid_file})", check_status=False)
        super().end()


class Rig:
    """Use in a `with`. Whatever happens, even a signal, the VM, the namespaces and the files are gone afterwards."""

    def __init__(self, roci, programs):
        self.roci = roci
        self.programs = programs  # of ours, to be put into the VM
        self.folder = None
        self.wire, self.ours = f"{NAME}-wire-{os.getpid()}", f"{NAME}-ours-{os.getpid()}"
        self.ports = itertools.count(18600)

    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: sys.exit(1))
        remove_stale()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{NAME}-{os.getpid()}-"))
        try:
            self._start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(self, *_):
        self._remove()

    def _start(self):
        # Meson puts the shim on it, but what goes into the VM is the system's libibverbs.
        os.environ.pop("LD_LIBRARY_PATH", None)
        image = self.folder / "initrd.cpio"
        run(HARNESS / "build-image", "--out", image, *(word for path in self.programs for word in ("--add", path)))
        run("ip", "netns", "add", self.wire)
        run("ip", "netns", "add", self.ours)
        addresses = ("--ip", f"{ADDRESSES[VM]}/24", "--ip", f"{ADDRESSES_V6[VM]}/64")
        run(*self.peer("start"), "--netns", self.wire, "--bridge", "br0", *addresses, "--mtu", INTERFACE_MTU,
            "--image", image, "--ttl", 7200)
        run("ip", "-n", self.wire, "link", "add", "toours", "mtu", INTERFACE_MTU, "type", "veth",
            "peer", "name", "host0", "mtu", INTERFACE_MTU, "netns", self.ours)
        run("ip", "-n", self.wire, "link", "set", "toours", "master", "br0", "up")
        run("ip", "-n", self.ours, "link", "set", "lo", "up")
        run("ip", "-n", self.ours, "link", "set", "host0", "up")
        run("ip", "-n", self.ours, "addr", "add", f"{ADDRESSES[OURS]}/24", "dev", "host0")
        run("ip", "-n", self.ours, "addr", "add", f"{ADDRESSES_V6[OURS]}/64", "dev", "host0", "nodad")
        self.in_vm(f"ping -q -c 1 -w 20 {ADDRESSES[OURS]} && ping -q -c 1 -w 20 {ADDRESSES_V6[OURS]}")

    def _remove(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # not twice
        remove(self.folder, [self.wire, self.ours])

    def peer(self, verb):
        return peer_command(self.folder, verb)

    def in_vm(self, line, check_status=True):
        """Output of a command line in the VM."""
        done = subprocess.run([*self.peer("exec"), line], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        check(not check_status or done.returncode == 0, f"in the VM: {line}: {done.stdout}{done.stderr}")
        return done.stdout

    def statistics(self):
        """rxe's counters."""
        words = self.in_vm("rdma statistic show link rxe0/1").split()[2:]
        return dict(zip(words[::2], map(int, words[1::2])))

    def start(self, side, command, seconds, run_flags=()):
        if side == VM:
            return VmProcess(self, command, seconds)
        return End(self.roci, "netdev:host0", command, run_flags, ["ip", "netns", "exec", self.ours])

    def wait_for_listener(self, side, port, server):
        """Until the server listens: seen from outside, since a connection would be taken for the client's."""
        wanted = re.compile(rf":{port:04X} \S+ 0A ")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and server.process.poll() is None:
            if side == VM:
                tables = self.in_vm("cat /proc/net/tcp /proc/net/tcp6")
            else:
                tables = run("ip", "netns", "exec", self.ours, "cat", "/proc/net/tcp", "/proc/net/tcp6")
            if wanted.search(tables):
                return
            time.sleep(0.1)
        raise AssertionError(f"the server does not listen\n{server.text()}")


def peer_command(folder, verb):
    return ["env", f"RXE_PEER_RUN={folder}/run", str(HARNESS / "rxe-peer"), verb]


def remove(folder, namespaces):
    if (folder / "run").exists():
        subprocess.run(peer_command(folder, "stop"), stdin=subprocess.DEVNULL, check=False)
    for namespace in namespaces:
        subprocess.run(["ip", "netns", "del", namespace], stderr=subprocess.DEVNULL, check=False)
    shutil.rmtree(folder, ignore_errors=True)


def remove_stale():
    """What runs that were killed have left: names hold the process ID of their maker."""
    for folder in pathlib.Path(tempfile.gettempdir()).glob(f"{NAME}-*-*"):
        pid = folder.name.removeprefix(f"{NAME}-").split("-")[0]
        if pid.isdigit() and not pathlib.Path(f"/proc/{pid}").exists():
            remove(folder, [f"{NAME}-wire-{pid}", f"{NAME}-ours-{pid}"])


class Conversation(Ends):
    """A server on one side and a client on the other, of a program that takes -p PORT and, as the client, the server's
    address. `flags` are for both, `gid_flag` says how the program is told its GID."""

    def __init__(self, rig, program, flags, server, ip=4, gid_flag="-x", run_flags=(), seconds=300):
        super().__init__()
        self.seconds = seconds
        port = next(rig.ports)
        client = OURS if server == VM else VM
        command = {side: [program, gid_flag, GIDS[side, ip], "-p", port, *flags] for side in (VM, OURS)}
        self.ends[server] = rig.start(server, command[server], seconds, run_flags)
        try:
            rig.wait_for_listener(server, port, self.ends[server])
            self.ends[client] = rig.start(client, [*command[client], ADDRESSES[server]], seconds, run_flags)
        except BaseException:
            self.end()
            raise
        self.server, self.client = self.ends[server], self.ends[client]

    def finish(self):
        """Both end well."""
        for end in (self.client, self.server):
            check(end.wait(self.seconds) == 0, f"not done well\n{self.explain()}")


def skip_if_impossible():
    reason = why_not()
    if reason:
        raise Skip(reason)
