#!/usr/bin/env python3
"""tools/test-summary on a small Meson project whose tests pass, fail, skip, crash and run out of time."""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

SUMMARY = pathlib.Path(__file__).resolve().parents[2] / "tools" / "test-summary"

MESON_BUILD = """project('rocinante')
python = import('python').find_installation('python3')
protocols = {'tap': 'tap', 'gtest': 'gtest'}
foreach name : get_option('cases').split(',')
  protocol = protocols.get(name.split('-')[0], 'exitcode')
  test(name, python, args: [files('program.py'), name], suite: 'unit', protocol: protocol,
    timeout: name == 'slow' ? 1 : 60)
endforeach
"""

# Stands for a test program; for a GoogleTest one it writes the report that GoogleTest would.
PROGRAM = '''import os, sys, time
name = sys.argv[1]
report = [a.removeprefix("--gtest_output=xml:") for a in sys.argv if a.startswith("--gtest_output=xml:")]
CASES = """<testsuites><testsuite name="Suite">
<testcase name="good" status="run"/>
<testcase name="off" status="notrun"/>
<testcase name="skips" status="run"><skipped message="a.cpp:3&#x0A;no captures here"/></testcase>
%s</testsuite></testsuites>"""
BAD = '<testcase name="bad" status="run"><failure message="no"/></testcase>'
if name == "gtest-good":
    open(report[0], "w").write(CASES % "")
elif name == "gtest-bad":
    open(report[0], "w").write(CASES % BAD)
    sys.exit(1)
elif name == "gtest-leaks":
    open(report[0], "w").write(CASES % "")
    sys.exit(23)
elif name == "gtest-empty":
    open(report[0], "w").write("<testsuites></testsuites>")
elif name == "gtest-crashes":
    os.abort()
elif name == "tap-good":
    print("1..2\\nok 1 - a\\nok 2 - b # SKIP no tshark")
elif name == "tap-bad":
    print("1..2\\nnot ok 1 - a\\nok 2 - b")
elif name == "tap-short":
    print("1..2\\nok 1 - a")
elif name == "slow":
    time.sleep(60)
'''


def summary_of(*cases):
    """(exit status, lines) of the summary of a run of these programs."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "meson.build").write_text(MESON_BUILD)
        (root / "meson_options.txt").write_text("option('cases', type: 'string', value: '')\n")
        (root / "program.py").write_text(PROGRAM)
        quiet = {"cwd": root, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "timeout": 120}
        subprocess.run(["meson", "setup", "build", "-Dcases=" + ",".join(cases)], check=True, **quiet)
        ran = subprocess.run(["meson", "test", "-C", "build", "--no-rebuild"], **quiet)
        result = subprocess.run(
            [SUMMARY, root / "build", str(ran.returncode)], capture_output=True, text=True, timeout=60
        )
        return result.returncode, result.stdout.splitlines()


def check_summary(cases, status, *lines):
    got_status, got = summary_of(*cases)
    tap.check_equal(got[-1], lines[-1], "last line")
    tap.check_equal(sorted(got[1:-1]), sorted(lines[:-1]), "lines")
    tap.check_equal(got_status, status, "exit status")


def test_counts_cases_and_says_why_some_are_skipped():
    check_summary(
        ("gtest-good", "tap-good", "plain"),
        0,
        "skipped  gtest-good: Suite.skips: no captures here",
        "skipped  tap-good: 2 - b: no tshark",
        "3 passed, 0 failed, 2 skipped",
    )


def test_nothing_skipped_is_not_mentioned():
    check_summary(("plain",), 0, "1 passed, 0 failed")


def test_a_program_without_cases_counts_for_nothing():
    check_summary(("gtest-empty", "plain"), 0, "1 passed, 0 failed")
    check_summary(("gtest-empty",), 1, "FAILED   no test ran", "0 passed, 1 failed")


def test_a_failed_case_is_named_once():
    check_summary(
        ("gtest-bad", "tap-bad"),
        1,
        "skipped  gtest-bad: Suite.skips: no captures here",
        "FAILED   gtest-bad: Suite.bad",
        "FAILED   tap-bad: 1 - a",
        "2 passed, 2 failed, 1 skipped",
    )


def test_a_program_that_fails_though_its_cases_pass_is_a_failure():
    check_summary(
        ("gtest-leaks", "gtest-crashes", "tap-short"),
        1,
        "skipped  gtest-leaks: Suite.skips: no captures here",
        "FAILED   gtest-leaks: the program ended with FAIL",
        "FAILED   gtest-crashes: the program ended with FAIL",
        "FAILED   tap-short: the program ended with ERROR",
        "2 passed, 3 failed, 1 skipped",
    )


def test_a_program_that_runs_out_of_time_is_a_failure():
    check_summary(("slow", "plain"), 1, "FAILED   slow: the program ended with TIMEOUT", "1 passed, 1 failed")


if __name__ == "__main__":
    tap.main(globals())
