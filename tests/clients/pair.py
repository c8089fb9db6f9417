"""Two ends of a client, each under `roci run` on one cable, as a user would start them."""

import os
import signal
import socket
import subprocess
import tempfile
import time

from ends import Ends
from tap import check

START_SECONDS = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """One process, its output in a file. The prefix is a command that starts it."""

    def __init__(self, command, prefix=()):
        self.output = tempfile.TemporaryFile(mode="w+")
        self.command = [str(word) for word in command]
        self.process = subprocess.Popen(
            [*prefix, *self.command], stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT)

    def wait(self, seconds):
        """The exit status, or None if the process is still there after `seconds`."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def text(self):
        self.output.seek(0)
        return self.output.read()

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self.output.close()


class End(Process):
    """A process under `roci run`."""

    def __init__(self, roci, link, command, run_flags=(), prefix=()):
        super().__init__(command, [*prefix, roci, "run", "--link", link, *run_flags, "--"])


class Place:
    """Where the two ends run: commands that stand before theirs, the link or links, and how the client calls the
    server."""

    def __init__(self, link=None, server_prefix=(), client_prefix=(), address="127.0.0.1", client_link=None):
        self.link = link
        self.client_link = client_link
        self.server_prefix = server_prefix
        self.client_prefix = client_prefix
        self.address = address


class Pair(Ends):
    """A server and a client of a program that takes -p PORT and, as the client, the server's address."""

    def __init__(self, roci, program, flags, link=None, server_run=(), client_run=(), place=None):
        super().__init__()
        place = place or Place(link)
        self.port = free_port()
        self.link = place.link or f"cable:test.{os.getpid()}.{self.port}"
        command = [program, "-p", self.port, *flags]
        self.ends["server"] = End(roci, self.link, command, server_run, place.server_prefix)
        try:
            self._wait_for_server()
            client_link = place.client_link or self.link
            self.ends["client"] = End(roci, client_link, [*command, place.address], client_run, place.client_prefix)
        except BaseException:
            self.end()
            raise

    def _wait_for_server(self):
        """Until the server listens: seen from outside, since a connection would be taken for the client's."""
        port = f":{self.port:04X}"
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.server.process.poll() is not None:
                break
            for table in ("tcp", "tcp6"):
                with open(f"/proc/{self.server.process.pid}/net/{table}") as lines:
                    if any(f"{port} " in line and " 0A " in line for line in lines):
                        return
            time.sleep(0.02)
        raise AssertionError(f"the server does not listen\n{self.server.text()}")

    @property
    def server(self):
        return self.ends["server"]

    @property
    def client(self):
        return self.ends["client"]

    def finish(self, seconds):
        """Both end well within `seconds`, which only guards against a hang."""
        for end in (self.client, self.server):
            check(end.wait(seconds) == 0, f"not done well\n{self.explain()}")
