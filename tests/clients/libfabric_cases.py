"""libfabric of Debian: what it finds, and its ping-pong with data checked."""

import os

from ends import Ends
from pair import End, Pair, free_port
from tap import check

# Provider and kind of endpoint.
PINGPONGS = [("verbs", "msg"), ("verbs;ofi_rxm", "rdm")]


class FabricPair(Pair):
    """A server and a client of fi_pingpong, which has options of its own for the port where they meet."""

    def __init__(self, roci, flags):
        Ends.__init__(self)
        self.port = free_port()
        self.link = f"cable:test.{os.getpid()}.{self.port}"
        self.ends["server"] = End(roci, self.link, ["fi_pingpong", *flags, "-B", self.port])
        try:
            self._wait_for_server()
            self.ends["client"] = End(roci, self.link, ["fi_pingpong", *flags, "-P", self.port, "127.0.0.1"])
        except BaseException:
            self.end()
            raise


class Cases:
    def __init__(self, roci, seconds, needs, single):
        self.roci, self.seconds, self.needs, self.single = roci, seconds, needs, single

    def pingpong(self, provider, endpoint):
        self.needs("fi_pingpong")
        with FabricPair(self.roci, ["-p", provider, "-e", endpoint, "-c", "-I", 100]) as pair:
            pair.finish(self.seconds)
            check("1m" in pair.client.text(), f"not up to 1 MiB\n{pair.explain()}")

    def all(self):
        yield "fi_info -p verbs", lambda: self.single(
            ["fi_info", "-p", "verbs"], "domain: roci0", "FI_EP_MSG", "FI_EP_DGRAM", "provider: verbs;ofi_rxm")
        # By the interface's name, which the provider looks for among those of getifaddrs().
        yield "fi_info -p verbs of one interface", lambda: self.single(
            ["env", "FI_VERBS_IFACE=roci0", "fi_info", "-p", "verbs", "-t", "FI_EP_MSG"], "domain: roci0")
        for provider, endpoint in PINGPONGS:
            yield (f"fi_pingpong -p {provider} -e {endpoint}",
                   lambda p=provider, e=endpoint: self.pingpong(p, e))
