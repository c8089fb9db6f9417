#!/usr/bin/env python3
"""What the libraries look like to the dynamic linker: check_abi.py FOLDER [--sanitized].

The lists beside this file are the default symbols of rdma-core 44's libraries: name, version, type."""

import glob
import os
import pathlib
import re
import subprocess
import sys
import typing

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = pathlib.Path(sys.argv[1]).resolve()
SANITIZED = "--sanitized" in sys.argv[2:]

SONAMES = {
    "libibverbs": "libibverbs.so.1",
    "librdmacm": "librdmacm.so.1",
    "libroci": "libroci.so.0",
    "libroci-redirect": "libroci-redirect.so",
    "libroci-dpdk": "libroci-dpdk.so",
}
SHIMS = ("libibverbs", "librdmacm")

C_LIBRARIES = {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}
NEEDED = {
    "libroci": C_LIBRARIES | {"libisal.so.2"},
    "libibverbs": C_LIBRARIES | {"libroci.so.0"},
    "librdmacm": C_LIBRARIES | {"libroci.so.0", "libibverbs.so.1"},
    "libroci-redirect": C_LIBRARIES,
    "libroci-dpdk": C_LIBRARIES
    | {"libmnl.so.0", "libpcap.so.0.8", "libbpf.so.1", "libxdp.so.1", "libnuma.so.1", "libbsd.so.0"},
}

# Programs and libraries that import from the two, where they are installed. Debian's and Fedora's folders.
CLIENTS = (
    "/usr/bin/ib_*",
    "/usr/bin/ibv_*",
    "/usr/bin/raw_ethernet_*",
    *(f"/usr/bin/{name}" for name in ("rping", "ucmatose", "udaddy", "mckey", "cmtime", "qperf", "rdma_*")),
    *(f"/usr/bin/{name}" for name in ("rstream", "riostream", "rcopy", "udpong")),
    *(f"/usr/lib*/{folder}{name}.so.*" for folder in ("", "x86_64-linux-gnu/") for name in ("libmlx5", "libefa")),
    "/usr/lib*/x86_64-linux-gnu/rsocket/librspreload.so*",
    "/usr/lib/python3/dist-packages/pyverbs/*.so",
)


def readelf(option, path):
    tap.check(path.exists(), f"{path} is missing")
    command = ["readelf", "--wide", option, path]
    environment = {**os.environ, "LC_ALL": "C"}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


class Symbol(typing.NamedTuple):
    name: str
    version: str
    type: str
    is_defined: bool
    is_default: bool  # of the versions that the library has of it


def dynamic_symbols(path):
    """The entries of the dynamic symbol table, but for the names of version nodes."""
    for line in readelf("--dyn-syms", path).splitlines():
        fields = line.split()
        if len(fields) < 8 or not re.fullmatch(r"\d+:", fields[0]) or fields[6] == "ABS":
            continue
        name, _, version = fields[7].partition("@")
        yield Symbol(name, version.lstrip("@"), fields[3], fields[6] != "UND", version.startswith("@"))


def dynamic_entries(path, tag):
    return re.findall(rf"\({tag}\).*\[(.*)\]", readelf("--dynamic", path))


def version_parents(path):
    """The parent of each version node that the library defines, None where it stands alone."""
    text = readelf("--version-info", path).partition("Version definition section")[2].partition("\n\n")[0]
    parents = {}
    for flags, name, parent in re.findall(r"Flags: (\w+) .*Name: (\S+)|Parent 1: (\S+)", text):
        if parent:
            parents[list(parents)[-1]] = parent
        elif flags != "BASE":
            parents[name] = None
    return parents


def library(name):
    return FOLDER / SONAMES[name]


def expected_symbols(name):
    return {tuple(line.split()) for line in (HERE / f"{name}.symbols").read_text().splitlines()}


def check_same(got, wanted, what):
    missing, extra = sorted(wanted - got), sorted(got - wanted)
    tap.check(not missing and not extra, f"{what}: missing {missing}, not wanted {extra}")


def each(names):
    """Makes a test of a function of one library into one that says which library failed."""

    def decorate(function):
        def case():
            for name in names:
                try:
                    function(name)
                except AssertionError as failure:
                    raise AssertionError(f"{SONAMES[name]}: {failure}") from failure

        return case

    return decorate


@each(SHIMS)
def test_symbols__are_those_of_the_library_replaced(name):
    exported = {
        (symbol.name, symbol.version, symbol.type)
        for symbol in dynamic_symbols(library(name))
        if symbol.is_defined and symbol.is_default
    }
    check_same(exported, expected_symbols(name), "symbols")


@each(SHIMS)
def test_version_nodes__each_inherits_the_one_before(name):
    def numbers(node):
        return [int(number) for number in re.findall(r"\d+", node)]

    nodes = sorted({version for _, version, _ in expected_symbols(name)}, key=numbers)
    public = [node for node in nodes if "PRIVATE" not in node]
    wanted = dict(zip(public, [None, *public])) | {node: None for node in nodes if node not in public}
    tap.check_equal(version_parents(library(name)), wanted, "nodes and their parents")


def test_libroci__exports_only_its_own_namespace():
    symbols = {symbol.name for symbol in dynamic_symbols(library("libroci")) if symbol.is_defined}
    tap.check(symbols, "no symbols")
    text = subprocess.run(["c++filt"], input="\n".join(symbols), capture_output=True, text=True, check=True).stdout
    own = re.compile(r"(?:(?:vtable|typeinfo|typeinfo name|VTT|guard variable) for )?roci::")
    foreign = sorted(line for line in text.splitlines() if own.match(line) is None)
    tap.check(not foreign, f"foreign symbols: {foreign}")


@each(SONAMES)
def test_soname(name):
    tap.check_equal(dynamic_entries(library(name), "SONAME"), [SONAMES[name]], "SONAME")


@each(SONAMES)
def test_needed__is_a_closed_list(name):
    if SANITIZED:
        raise tap.Skip("a sanitizer brings its runtime and needs the shared C++ library")
    check_same(set(dynamic_entries(library(name), "NEEDED")) | NEEDED[name], NEEDED[name], "DT_NEEDED")


def test_needed__the_shim_finds_the_stack_beside_itself():
    needed = dynamic_entries(library("libibverbs"), "NEEDED")
    tap.check("libroci.so.0" in needed, f"DT_NEEDED is {needed}")
    paths = ":".join(dynamic_entries(library("libibverbs"), "RUNPATH")).split(":")
    tap.check(any(path.rstrip("/") == "$ORIGIN" for path in paths), f"RUNPATH is {paths}")


@each(SONAMES)
def test_rpath__clients_can_override(name):
    tap.check_equal(dynamic_entries(library(name), "RPATH"), [], "DT_RPATH")


@each(SHIMS)
def test_development_link__leads_to_the_shim(name):
    # Programs that dlopen("libibverbs.so") would otherwise load the system's library.
    link = FOLDER / f"{name}.so"
    tap.check(link.exists(), f"{link} is missing")
    tap.check_equal(link.resolve(), library(name).resolve(), str(link))


def imports_of(path):
    """(name, version) of what `path` imports from the libraries replaced, known by the names of their versions."""
    return {
        (symbol.name, symbol.version)
        for symbol in dynamic_symbols(path)
        if not symbol.is_defined and symbol.version.startswith(("IBVERBS_", "RDMACM_"))
    }


def test_installed_clients__find_all_they_import():
    paths = sorted({pathlib.Path(path).resolve() for pattern in CLIENTS for path in glob.glob(pattern)})
    paths = [path for path in paths if path.read_bytes()[:4] == b"\x7fELF"]
    if not paths:
        raise tap.Skip("no RDMA program is installed here")
    offered = {
        (symbol.name, symbol.version)
        for name in SHIMS
        for symbol in dynamic_symbols(library(name))
        if symbol.is_defined
    }
    lacking = [f"{path}: {' '.join(row)}" for path in paths for row in sorted(imports_of(path) - offered)]
    tap.check(not lacking, "\n".join(lacking))


tap.main(globals())
