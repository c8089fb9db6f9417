"""UCX of Debian: what it finds, and its own benchmark over each transport."""

from pair import Pair, Place
from tap import check

# rc_v is UCX's name for rc_verbs with datagrams to connect by; rc_verbs alone connects to nobody, on any NIC.
TRANSPORTS = {"rc_verbs": "rc_v,self", "ud_verbs": "ud_v,self"}

QUICK = [("tag_bw", []), ("tag_lat", []), ("ucp_am_lat", []), ("ucp_put_lat", []), ("ucp_get", []), ("stream_lat", [])]
MORE = [("ucp_am_bw", []), ("ucp_put_bw", []), ("stream_bw", []), ("ucp_add", []), ("ucp_fadd", []), ("ucp_swap", []),
        ("ucp_cswap", [])]
# A long message goes by another protocol than a short one: RDMA READ, or many datagrams.
SIZES = (1, 1000, 8192, 100000, 1000000)


class Cases:
    def __init__(self, roci, full, seconds, needs, single):
        self.roci, self.full, self.seconds, self.needs, self.single = roci, full, seconds, needs, single

    def found(self):
        self.single(["ucx_info", "-d"], "Memory domain: roci0", "Transport: rc_verbs", "Transport: ud_verbs",
                    "Device: roci0:1")

    def perftest(self, transport, test, flags):
        self.needs("ucx_perftest")
        environment = ["env", f"UCX_TLS={TRANSPORTS[transport]}", "UCX_NET_DEVICES=roci0:1"]
        place = Place(server_prefix=environment, client_prefix=environment)
        with Pair(self.roci, "ucx_perftest", ["-t", test, *flags], place=place) as pair:
            pair.finish(self.seconds)
            check("Final:" in pair.client.text(), f"no result\n{pair.explain()}")
            for end in (pair.client, pair.server):
                check("ERROR" not in end.text() and "WARN" not in end.text(), pair.explain())

    def all(self):
        yield "ucx_info -d", self.found
        count = ["-n", 10000 if self.full else 300, "-w", 100]
        for transport in TRANSPORTS:
            for test, flags in QUICK + (MORE if self.full else []):
                yield (f"ucx_perftest of {transport}: {test}",
                       lambda tr=transport, te=test, f=flags: self.perftest(tr, te, [*f, *count]))
            for size in SIZES if self.full else SIZES[-1:]:
                for test in ("tag_bw", "ucp_am_bw", "ucp_put_bw", "ucp_get", "stream_bw") if self.full else ("tag_bw",):
                    yield (f"ucx_perftest of {transport}: {test} -s {size}",
                           lambda tr=transport, te=test, s=size: self.perftest(
                               tr, te, ["-s", s, "-n", 200 if self.full else 50, "-w", 10]))
