#!/usr/bin/env python3
"""roci sim built in different ways: sim_builds_test.py SOURCE SCENARIOS.

Builds roci by gcc and clang, optimised and for debugging, each in a folder that goes away again, and compares what
they write of a scenario, byte for byte.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

SOURCE, SCENARIOS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:3])
COMPILERS = {"gcc": [("gcc", "g++")], "clang": [("clang-14", "clang++-14"), ("clang", "clang++")]}
BUILD_TYPES = ("release", "debug")
# What is added to an example, and changes of it: marks, CNPs, pauses, losses and random arrivals, all seen on a link.
RUNS = {
    "incast": ("incast-16.toml", "", "run.duration=1ms", "run.warmup=200us"),
    "pauses": ("pfc-only.toml", "", "run.duration=500us", "run.warmup=0us"),
    "arrivals": ("leaf-spine-poisson.toml", "", "run.duration=500us", "run.warmup=0us"),
    "losses": ("incast-16.toml", '\n[[fault]]\nscript = "drop rate=1%"\n', "run.duration=1ms", "run.warmup=0us"),
}
FILES = {"--json": "out.json", "--csv": "out.csv", "--capture": "out.pcapng"}


def compilers_here():
    """(name, C compiler, C++ compiler) of each compiler that is installed."""
    for name, candidates in COMPILERS.items():
        for pair in candidates:
            if all(shutil.which(program) for program in pair):
                yield name, *pair
                break


def build(folder, c_compiler, cxx_compiler, build_type):
    """Returns the roci that was built."""
    environment = os.environ | {"CC": c_compiler, "CXX": cxx_compiler}
    setup = ["meson", "setup", "--buildtype", build_type, folder, SOURCE]
    for command, more in ((setup, {"env": environment}), (["ninja", "-C", folder, "tools/roci"], {})):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, **more)
        tap.check(done.returncode == 0, f"{' '.join(map(str, command))}: {(done.stdout + done.stderr)[-2000:]}")
    return pathlib.Path(folder, "tools/roci")


def outputs(roci, example, more, changes):
    """The bytes of all that a run writes, by option."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(SCENARIOS, folder, dirs_exist_ok=True)
        with open(pathlib.Path(folder, example), "a") as scenario:
            scenario.write(more)
        sets = [word for change in (*changes, "run.sample_interval=50us") for word in ("--set", change)]
        files = [word for pair in FILES.items() for word in pair]
        done = subprocess.run(
            [roci, "sim", example, *sets, *files, "--no-wall"], cwd=folder, capture_output=True, text=True
        )
        tap.check_equal(done.returncode, 0, f"{example}: {done.stderr.strip()}: exit status")
        return {option: pathlib.Path(folder, file).read_bytes() for option, file in FILES.items()}


def test_builds__write_the_same_bytes():
    wanted = {}
    compilers = list(compilers_here())
    if len(compilers) < len(COMPILERS):
        raise tap.Skip(f"only {', '.join(name for name, *_ in compilers)} here")
    for name, c_compiler, cxx_compiler in compilers:
        for build_type in BUILD_TYPES:
            with tempfile.TemporaryDirectory() as folder:
                roci = build(folder, c_compiler, cxx_compiler, build_type)
                for run, (example, more, *changes) in RUNS.items():
                    got = outputs(roci, example, more, changes)
                    for option, bytes_written in wanted.setdefault(run, got).items():
                        tap.check(got[option] == bytes_written, f"{run}: {option} of {name} {build_type} differs")


if __name__ == "__main__":
    tap.main(globals())
