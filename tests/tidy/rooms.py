"""Which folder may include which: docs/architecture.md's arrows as a table."""

_BASE = ["stack/base"]
_PROTOCOL = [*_BASE, "stack/wire", "stack/mem", "stack/queues", "cc"]
_ENGINE = [*_PROTOCOL, "stack/egress", "stack/qp"]
_STACK = [*_ENGINE, "stack/engine", "stack/control", "stack/cm", "stack/neighbour"]
_DRIVER = [*_BASE, "stack/wire", "stack/engine/port.h"]

# A folder holds for those below it unless they have a row; each may include itself. An entry is a folder or a file.
MAY_INCLUDE = {
    "stack/base": [],
    "stack/wire": _BASE,
    "stack/mem": _BASE,
    "stack/neighbour": [*_BASE, "stack/wire"],
    "stack/queues": _BASE,
    "cc": _BASE,
    "stack/egress": _PROTOCOL,
    "stack/qp": [*_PROTOCOL, "stack/egress"],
    "stack/engine": _ENGINE,
    "stack/cm": [*_ENGINE, "stack/engine"],
    "stack/control": [*_ENGINE, "stack/engine"],
    "drivers/cable": _DRIVER,
    "drivers/capture": _DRIVER,
    "drivers/dpdk": [*_DRIVER, "stack/neighbour"],
    "drivers/fabric": [*_DRIVER, "stack/egress"],
    "drivers/faults": _DRIVER,
    "drivers/sim": [*_STACK, "drivers"],
    "drivers/live": [*_STACK, "drivers"],
    "verbs-shim": [*_STACK, "drivers/live"],
    "tools": [*_STACK, "drivers"],
    "tests": [*_STACK, "drivers", "verbs-shim", "tools"],
}

# Headers of other projects that only some folders may see.
ONLY_IN = {
    r"rte_\w+\.h": ["drivers/dpdk", "drivers/cable", "tools/raw_port", "tests"],
    r"(?:infiniband|rdma)/.*": ["verbs-shim", "tests"],
    r"pcap(?:/.*|\.h)": ["drivers/dpdk", "tools", "tests"],
    r"(?:CLI|fmt|toml\+\+|nlohmann)/.*": ["tools", "tests"],
    r"(?:mutex|thread|chrono|random|iostream)": ["drivers", "verbs-shim", "tools", "tests"],
}


def _within(path, place):
    return path == place or path.startswith(place + "/")


def room_of(path):
    """The longest row of MAY_INCLUDE that holds for `path`; None if there is none."""
    rows = [room for room in MAY_INCLUDE if _within(path, room)]
    return max(rows, key=len, default=None)


def may_include(path, target):
    room = room_of(path)
    return room is not None and any(_within(target, place) for place in [room, *MAY_INCLUDE[room]])


def may_see(path, places):
    return any(_within(path, place) for place in places)
