#!/usr/bin/env python3
"""roci bench from outside: the structure of what it says, never how fast anything was. bench_test.py ROCI SANITIZER."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

ROCI = pathlib.Path(sys.argv[1]).resolve()
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("ROCI_", "LD_"))}
DONE_WELL, BAD_YARDSTICK = 0, 3
BEGIN, END = "<!-- roci bench: begin -->", "<!-- roci bench: end -->"


def bench(*arguments):
    return subprocess.run([ROCI, "bench", *arguments], env=PLAIN, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, timeout=200)


def check_row(row, yardstick_good):
    """A row has a figure with all that belongs to it, or says why it has none."""
    if "absent" in row:
        tap.check(row["absent"] and "figure" not in row, row)
        return
    tap.check(row["figure"] > 0 and len(row["samples"]) == 2 and row["unit"] and row["limited_by"], row)
    for comparison in row["comparisons"]:
        tap.check(yardstick_good or "ratio" not in comparison, row)


def test_only_some_rows__json_text_and_markdown():
    with tempfile.TemporaryDirectory() as folder:
        files = [pathlib.Path(folder) / name for name in ("bench.json", "bench.md")]
        result = bench("--quick", "--rounds", "2", "--only", "rate-16-list", "--json", files[0], "--markdown", files[1])
        tap.check(result.returncode in (DONE_WELL, BAD_YARDSTICK), f"{result.returncode}: {result.stderr}")
        report = json.loads(files[0].read_text())
        good = report["yardstick"]["good"]
        tap.check_equal(result.returncode, DONE_WELL if good else BAD_YARDSTICK, "exit status")
        tap.check_equal(result.stdout.startswith("The yardstick is bad"), not good, "said first")
        ids = [row["id"] for row in report["rows"]]
        tap.check_equal(ids, ["core-4154", "cable-4154", "rate-1-list", "rate-16-list"], "rows")
        for row in report["rows"]:
            check_row(row, good)
            tap.check(row["what"] in result.stdout and row["what"] in files[1].read_text(), row["what"])
        tap.check("figure" in report["rows"][-1], f"perftest gave no figure: {report['rows'][-1]} {result.stderr}")


def test_markdown_keeps_what_stands_around_the_table():
    with tempfile.TemporaryDirectory() as folder:
        document = pathlib.Path(folder) / "page.md"
        document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
        result = bench("--quick", "--only", "memcpy", "--markdown", document)
        tap.check(result.returncode in (DONE_WELL, BAD_YARDSTICK), f"{result.returncode}: {result.stderr}")
        text = document.read_text()
        tap.check(text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"{END}\nafter\n"), text)
        tap.check("memcpy" in text and "old" not in text, text)
        document.write_text("no marks\n")
        tap.check_equal(bench("--quick", "--only", "memcpy", "--markdown", document).returncode, 1, "exit status")
        tap.check_equal(document.read_text(), "no marks\n", "the page")


def test_ports_by_themselves():
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "bench.json"
        result = bench("--quick", "--only", "by itself", "--json", file)
        tap.check(result.returncode in (DONE_WELL, BAD_YARDSTICK), f"{result.returncode}: {result.stderr}")
        rows = {row["id"]: row for row in json.loads(file.read_text())["rows"]}
        tap.check(rows["memif"].get("figure", 0) > 0, rows["memif"])
        for name in ("raw-packet", "raw-xdp"):
            # Namespaces are root's; what may run must not fail.
            tap.check(rows[name].get("figure", 0) > 0 or "failed" not in rows[name]["absent"], rows[name])


def test_a_pattern_that_matches_nothing_is_an_error():
    result = bench("--only", "no such row")
    tap.check_equal(result.returncode, 2, "exit status")
    tap.check("no such row" in result.stderr and not result.stdout, result.stderr)


def test_list__every_row_once():
    lines = bench("--list").stdout.splitlines()
    ids = [line.split()[0] for line in lines]
    tap.check_equal(len(set(ids)), len(ids), "different rows")
    for wanted in ("cable-4154", "tcp", "write-64k", "rate-256-list", "write-latency-99", "idle", "qp-memory"):
        tap.check(wanted in ids, f"{wanted} is not in {ids}")


if __name__ == "__main__":
    if "thread" in sys.argv[2:]:
        sys.exit(tap.skip_all("an unmodified client cannot bring ThreadSanitizer's runtime"))
    tap.main(globals())
