#!/usr/bin/env python3
"""tools/setup with stand-ins for Debian's tools, so that nothing is installed."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

SETUP = pathlib.Path(__file__).resolve().parents[2] / "tools" / "setup"

ALL_INSTALLED = 'shift 3; for package; do [ "$package" = -- ] || echo "$package installed"; done'
ONE_MISSING = ALL_INSTALLED + " | grep -v '^meson '"
ONE_REMOVED = ALL_INSTALLED + " | sed 's/^meson installed/meson config-files/'"


def run_setup(dpkg_query, apt_get="true", arguments=()):
    """(result, lines of apt-get's arguments) with these bodies for the two commands."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        log = root / "apt.log"
        commands = {
            "dpkg-query": dpkg_query,
            "apt-get": f'echo "$*" >>{log}; {apt_get}',
            "sudo": 'exec "$@"',
        }
        for name, body in commands.items():
            (root / name).write_text(f"#!/bin/sh\n{body}\n")
            (root / name).chmod(0o755)
        result = subprocess.run(
            [SETUP, *arguments],
            env={"PATH": f"{root}:/usr/bin:/bin"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )
        return result, log.read_text().splitlines() if log.exists() else []


def test_all_there__says_and_does_nothing():
    result, calls = run_setup(ALL_INSTALLED)
    tap.check_equal((result.returncode, result.stdout, result.stderr, calls), (0, "", "", []))


def test_one_missing__only_that_is_installed():
    for dpkg_query in (ONE_MISSING, ONE_REMOVED):
        result, calls = run_setup(dpkg_query)
        tap.check_equal((result.returncode, result.stderr, len(calls)), (0, "", 2), "status, errors, calls")
        tap.check_equal(calls[0].split()[-1], "update", "first call")
        tap.check(calls[1].endswith("install --yes --no-install-recommends meson"), calls[1])


def test_soak__the_long_tests_have_packages_of_their_own():
    no_clang = ALL_INSTALLED + " | grep -v clang"
    result, calls = run_setup(no_clang)
    tap.check_equal((result.returncode, calls), (0, []), "without --soak")
    result, calls = run_setup(no_clang, arguments=["--soak"])
    tap.check_equal((result.returncode, result.stderr), (0, ""), "with --soak")
    tap.check(calls[1].endswith(" clang-14 libclang-rt-14-dev"), calls[1])


def test_unknown_argument__is_refused():
    result, calls = run_setup(ONE_MISSING, arguments=["--everything"])
    tap.check_equal((result.returncode, calls), (2, []))


def test_apt_fails__its_words_are_shown():
    result, _ = run_setup(ONE_MISSING, "echo no route to the mirror; exit 100")
    tap.check(result.returncode != 0, "success though apt-get failed")
    tap.check("no route to the mirror" in result.stderr, result.stderr)


if __name__ == "__main__":
    tap.main(globals())
