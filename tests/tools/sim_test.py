#!/usr/bin/env python3
"""roci sim from outside: sim_test.py ROCI CHECK-CAPTURE SCENARIOS."""

import csv
import json
import os
import pathlib
import pty
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

ROCI, CHECK_CAPTURE, SCENARIOS = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
USAGE_ERROR = 2
# Three hosts send to a fourth, with marks, CNPs, pauses and a loss.
BUSY = """
[topology]
hosts = 4
link_rate = "100Gbps"
link_delay = "1us"
[switch]
buffer = "900KB"
kmin = "5KB"
kmax = "200KB"
pmax = 0.1
pfc = [3]
[host]
cc = "dcqcn,preset=paper"
[[workload]]
kind = "incast"
size = "1MB"
[run]
until = "done"
sample_interval = "10us"
"""


def sim(*arguments, cwd=None, wanted=0):
    result = subprocess.run(
        [ROCI, "sim", *arguments], cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300
    )
    tap.check_equal(result.returncode, wanted, f"exit status ({result.stderr.strip()})")
    return result


def in_folder():
    """A temporary folder with the busy scenario in it, as a context manager."""
    folder = tempfile.TemporaryDirectory()
    pathlib.Path(folder.name, "busy.toml").write_text(BUSY)
    return folder


def read_json(*path):
    return json.loads(pathlib.Path(*path).read_text())


def test_result__has_what_the_format_says():
    with in_folder() as folder:
        text = sim("busy.toml", "--seed", "7", "--json", "out.json", cwd=folder).stdout
        result = read_json(folder, "out.json")
    tap.check_equal((result["seed"], result["scenario"]), (7, "busy.toml"), "seed and scenario")
    tap.check(result["version"], "no version")
    flow_keys = {"src", "dst", "bytes", "start_ns", "fct_ns", "goodput_bps", "retransmitted_packets"}
    tap.check_equal(len(result["flows"]), 3, "flows")
    for flow in result["flows"]:
        tap.check(flow_keys <= flow.keys(), f"a flow has {sorted(flow)}")
        tap.check_equal(flow["bytes"], 1_000_000, "bytes")
        # 977 packets alone take 85 us; three at once cannot be faster than a link together.
        tap.check(flow["fct_ns"] > 85_000, f"{flow['fct_ns']} ns")
    tap.check(max(flow["fct_ns"] for flow in result["flows"]) > 3 * 80_000, "faster than the link")
    total_keys = {
        *("goodput_bps", "jain", "marks", "cnps", "pfc_pauses", "paused_ns", "drops", "drops_by_reason"),
        *("packet_hops", "wall_s"),
    }
    tap.check(total_keys <= result["total"].keys(), f"the total has {sorted(result['total'])}")
    tap.check_equal(result["total"]["packet_hops"], 3 * 977 * 2, "977 packets of three flows over two links each")
    tap.check(result["total"]["marks"] > 0 and result["total"]["cnps"] > 0, "no marks or CNPs")
    queue_keys = {"node", "port", "priority", "mean_bytes", "p99_bytes", "max_bytes"}
    tap.check(all(queue_keys == queue.keys() for queue in result["queues"]), "keys of queues")
    tap.check("busy.toml" in text and "goodput[Gb/s]" in text, text)


def outputs(folder, name, *arguments):
    """The bytes of all outputs of a run."""
    files = [f"{name}.{suffix}" for suffix in ("json", "csv", "pcapng")]
    options = [word for option, file in zip(("--json", "--csv", "--capture"), files) for word in (option, file)]
    text = sim("busy.toml", "--no-wall", *options, *arguments, cwd=folder).stdout
    return [text, *(pathlib.Path(folder, file).read_bytes() for file in files)]


def test_output__the_same_seed_gives_the_same_bytes():
    with in_folder() as folder:
        first = outputs(folder, "first")
        tap.check(first == outputs(folder, "second"), "two runs differ")
        other = outputs(folder, "other", "--seed", "2")
        tap.check(first[1] != other[1], "two seeds give the same results")


def test_payload__elided_changes_no_result():
    with in_folder() as folder:
        carried = outputs(folder, "carried", "--capture-link", "switch0:0")
        elided = outputs(folder, "elided", "--capture-link", "switch0:0", "--set", "run.payload=elided")
        tap.check(carried[:3] == elided[:3], "summary, JSON or CSV differ")
        tap.check(len(elided[3]) < len(carried[3]) / 3, f"{len(elided[3])} of {len(carried[3])} bytes captured")
        fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "ip.src"]
        rows = [
            subprocess.run(
                ["tshark", "-r", f"{name}.pcapng", *fields], cwd=folder, capture_output=True, text=True, check=True
            ).stdout
            for name in ("carried", "elided")
        ]
        tap.check(rows[0] == rows[1], "times, lengths or senders of the captures differ")


def captured(folder, *arguments):
    """Fields of the frames that a run captures, whose ICRCs are right."""
    sim("busy.toml", "--capture", "link.pcapng", *arguments, cwd=folder)
    checked = subprocess.run([CHECK_CAPTURE, "link.pcapng"], cwd=folder, capture_output=True, text=True)
    tap.check_equal(checked.returncode, 0, f"{checked.stdout}{checked.stderr}: exit status")
    names = ["frame.time_epoch", "ip.src", "ip.dsfield.ecn", "infiniband.bth.opcode", "macc.opcode"]
    fields = [word for name in names for word in ("-e", name)]
    command = ["tshark", "-r", "link.pcapng", "-T", "fields", *fields]
    rows = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()
    return [dict(zip(names, row.split("\t"))) for row in rows]


def test_capture__both_ways_of_a_switchs_port():
    with in_folder() as folder:
        frames = captured(folder, "--capture-link", "switch0:0")
    hosts = {f"198.18.0.{number}" for number in range(1, 5)}
    tap.check_equal({frame["ip.src"] for frame in frames}, hosts, "senders")
    tap.check(any(frame["ip.dsfield.ecn"] == "3" for frame in frames), "no CE marks")
    tap.check(any(frame["infiniband.bth.opcode"] == "129" for frame in frames), "no CNPs")
    times = [float(frame["frame.time_epoch"]) for frame in frames]
    tap.check(times == sorted(times) and times[-1] < 0.01, "stamps are not of virtual time")


def test_capture__pauses_on_a_hosts_link():
    with in_folder() as folder:
        frames = captured(folder, "--capture-link", "host1", "--cc", "none")
    pauses = [frame for frame in frames if frame["macc.opcode"]]
    tap.check(len(pauses) > 0, "no PFC frames")
    tap.check_equal({frame["ip.src"] for frame in frames} - {""}, {"198.18.0.1", "198.18.0.2"}, "senders")


def test_csv__rows_of_flows_and_queues():
    with in_folder() as folder:
        sim("busy.toml", "--csv", "out.csv", cwd=folder)
        rows = list(csv.DictReader(pathlib.Path(folder, "out.csv").read_text().splitlines()))
    tap.check_equal(list(rows[0]), ["time_ns", "what", "of", "value"], "columns")
    tap.check({row["what"] for row in rows} == {"rate_bps", "goodput_bps", "queue_bytes"}, "kinds of rows")
    tap.check_equal(rows[0], {"time_ns": "10000", "what": "rate_bps", "of": "flow0:1>0", "value": rows[0]["value"]})


def test_sweep__each_run_is_as_it_is_alone():
    with in_folder() as folder:
        sweep = ["--sweep", "switch.kmin=5KB,50KB", "--sweep", "cc=none;dcqcn,preset=mlx"]
        table = sim("busy.toml", *sweep, "--no-wall", "--json", "all.json", "--jobs", "2", cwd=folder).stdout
        runs = read_json(folder, "all.json")["runs"]
        alone = []
        for kmin in ("5KB", "50KB"):
            for cc in ("none", "dcqcn,preset=mlx"):
                change = ["--set", f"switch.kmin={kmin}", "--cc", cc]
                sim("busy.toml", *change, "--no-wall", "--json", "one.json", cwd=folder)
                alone.append({"set": {"switch.kmin": kmin, "cc": cc}, "result": read_json(folder, "one.json")})
    tap.check(runs == alone, "results differ")
    tap.check_equal([line.split()[:2] for line in table.splitlines()[1:]][2], ["50KB", "none"], "third row")


def test_print_jobs__are_the_same_runs():
    with in_folder() as folder:
        options = ["busy.toml", "--seed", "3", "--sweep", "host.mtu=512,1024", "--no-wall", "--json", "r.json"]
        jobs = sim(*options, "--print-jobs", cwd=folder).stdout.splitlines()
        tap.check_equal(os.listdir(folder), ["busy.toml"], "files")
        for job in jobs:
            subprocess.run(shlex.split(job), cwd=folder, check=True, stdout=subprocess.DEVNULL)
        separate = [read_json(folder, name) for name in ("r.0.json", "r.1.json")]
        sim(*options, cwd=folder)
        tap.check_equal([run["result"] for run in read_json(folder, "r.json")["runs"]], separate, "results")


def test_wrong__is_one_line_and_nothing_runs():
    def refused(*arguments):
        result = sim("busy.toml", *arguments, cwd=folder, wanted=USAGE_ERROR)
        tap.check_equal(result.stdout, "", "standard output")
        return result.stderr.splitlines()[0].removeprefix("roci: sim: ")

    with in_folder() as folder:
        tap.check_equal(
            refused("--set", "switch.kmn=1KB"), '--set switch.kmn=1KB: [switch] has no key "kmn", nearest: "kmin"'
        )
        tap.check_equal(
            refused("--capture", "x", "--capture-link", "host4"), '--capture-link: "host4" is none of host0 to host3'
        )
        tap.check(refused("--csv", "x", "--set", "run.sample_interval=0us").startswith("--csv: "), "no samples")
        tap.check(refused("--sweep", "host.mtu=512,513").startswith("--set host.mtu=513: mtu: "), "not before it runs")
        tap.check_equal(os.listdir(folder), ["busy.toml"], "files")


def test_wrong__a_file_that_cannot_be_written():
    with in_folder() as folder:
        for option in ("--json", "--csv", "--capture"):
            result = sim("busy.toml", option, "none/x", cwd=folder, wanted=1)
            tap.check_equal(result.stderr, "roci: sim: none/x: No such file or directory\n", option)


def test_terminal__a_short_run_shows_no_progress():
    with in_folder() as folder:
        control, terminal = pty.openpty()
        subprocess.run([ROCI, "sim", "busy.toml"], cwd=folder, stdout=subprocess.DEVNULL, stderr=terminal, check=True)
        os.close(terminal)
        try:
            shown = os.read(control, 1000)
        except OSError:
            shown = b""
        os.close(control)
    tap.check_equal(shown, b"", "on the terminal")


def test_examples__run():
    names = sorted(SCENARIOS.glob("*.toml"))
    tap.check(len(names) >= 4, f"{len(names)} examples")
    for name in names:
        short = ["--set", "run.duration=1ms", "--set", "run.warmup=0us"]
        tap.check(f"Scenario  : {name.name}" in sim(str(name), *short).stdout, name.name)


if __name__ == "__main__":
    tap.main(globals())
