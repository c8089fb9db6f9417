#!/usr/bin/env python3
"""Compiles each header by itself: headers.py COMPILER FLAG..."""

import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import source
import tap


# Of packages that only the long tests need.
OPTIONAL = {"mpi.h": "needs MPI, see tools/setup --soak"}


def compile_alone(path):
    """The compiler's words about the header; empty when it has none."""
    command = [*sys.argv[1:], "-I", str(source.ROOT), "-fsyntax-only", "-x", "c++", "-"]
    result = subprocess.run(command, input=f'#include "{path}"\n', capture_output=True, text=True)
    return result.stderr if result.returncode != 0 else ""


def main():
    headers = [str(path) for path in source.tracked_files() if path.suffix == ".h"]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        verdicts = dict(zip(headers, pool.map(compile_alone, headers)))

    def case(path):
        def judge():
            for missing, reason in OPTIONAL.items():
                if f"{missing}: No such file" in verdicts[path]:
                    raise tap.Skip(reason)
            tap.check(not verdicts[path], verdicts[path])

        return judge

    return tap.run((path, case(path)) for path in headers)


if __name__ == "__main__":
    sys.exit(main())
