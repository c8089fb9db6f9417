#!/usr/bin/env python3
"""roci run from outside: run_test.py ROCI BUILD-FOLDER CRASH SANITIZER."""

import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap

ROCI, BUILD, CRASH = (pathlib.Path(argument).resolve() for argument in sys.argv[1:4])
SANITIZER = sys.argv[4]
SHIM = BUILD / "verbs-shim" / "lib"
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("ROCI_", "LD_", "NCCL_"))}
USAGE_ERROR = 2


def roci(*arguments, env=None, cwd=None, program=ROCI):
    return subprocess.run(
        [program, *arguments],
        env={**PLAIN, **(env or {})},
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )


def environment_of(*arguments, **keywords):
    """The environment in which `roci run ARGUMENTS -- env` runs its program."""
    result = roci("run", *arguments, "--", "env", "-0", **keywords)
    tap.check_equal(result.returncode, 0, f"exit status ({result.stderr.strip()})")
    return dict(line.split("=", 1) for line in result.stdout.split("\0") if line)


def settings_of(*arguments, **keywords):
    return {name: value for name, value in environment_of(*arguments, **keywords).items() if name.startswith("ROCI_")}


def check_refused(result, *wanted):
    """A usage error whose first line, alone before the hint at --help, has all of `wanted`."""
    tap.check_equal(result.returncode, USAGE_ERROR, "exit status")
    tap.check_equal(result.stdout, "", "standard output")
    for text in wanted:
        tap.check(text in result.stderr.splitlines()[0], f"{text!r} is not in {result.stderr!r}")


def in_folder(files=None):
    """A temporary folder with these files, as a context manager."""
    folder = tempfile.TemporaryDirectory()
    for name, text in (files or {}).items():
        pathlib.Path(folder.name, name).write_text(text)
    return folder


def test_status__is_the_programs():
    for status in (0, 1, 77, 255):
        tap.check_equal(roci("run", "--", "sh", "-c", f"exit {status}").returncode, status, "exit status")


def test_status__a_signal_is_the_programs_too():
    tap.check_equal(roci("run", "--", "sh", "-c", "kill -TERM $$").returncode, -15, "exit status")


def test_status__a_program_that_crashes_ends_as_it_would_without_us():
    if SANITIZER != "none":
        raise tap.Skip("a sanitizer has a handler of its own for faults")

    def status_of(how):
        return roci("run", "--link", f"cable:crash.{os.getpid()}", "--", CRASH, how).returncode

    for how in ("write nowhere", "null to verbs", "be sent SIGSEGV"):
        tap.check_equal(status_of(how), -signal.SIGSEGV, how)
    tap.check_equal(status_of("write beyond the file"), -signal.SIGBUS, "write beyond the file")
    tap.check_equal(status_of("abort"), -signal.SIGABRT, "abort")
    tap.check_equal(status_of("handle it"), 7, "handle it")
    tap.check_equal(status_of("ignore a sent SIGSEGV"), 0, "ignore a sent SIGSEGV")


def test_status__program_not_found_is_127():
    result = roci("run", "--", "no-such-program")
    tap.check_equal(result.returncode, 127, "exit status")
    tap.check("no-such-program" in result.stderr, result.stderr)


def test_status__program_not_executable_is_126():
    tap.check_equal(roci("run", "--", "/").returncode, 126, "exit status")


def test_program__its_arguments_are_its_own():
    result = roci("run", "--", "printf", "%s|", "--link", "cabel:x", "--", "-h", "")
    tap.check_equal(result.stdout, "--link|cabel:x|--|-h||", "arguments")


def test_program__missing():
    check_refused(roci("run"), "--")
    check_refused(roci("run", "--"), "--")
    check_refused(roci("run", "ls"), '"ls"', "--")


def test_shim__first_on_the_library_path():
    tap.check((SHIM / "libibverbs.so.1").exists(), f"{SHIM} has no libibverbs.so.1")
    tap.check_equal(environment_of()["LD_LIBRARY_PATH"], str(SHIM), "LD_LIBRARY_PATH")
    before = environment_of(env={"LD_LIBRARY_PATH": "/a:/b"})
    tap.check_equal(before["LD_LIBRARY_PATH"], f"{SHIM}:/a:/b", "LD_LIBRARY_PATH")
    empty = environment_of(env={"LD_LIBRARY_PATH": ""})
    tap.check_equal(empty["LD_LIBRARY_PATH"], str(SHIM), "LD_LIBRARY_PATH, which was empty")


def test_shim__nccl_is_told_the_row_of_roce_v2_unless_the_user_says_one():
    tap.check_equal(environment_of().get("NCCL_IB_GID_INDEX"), "0")
    tap.check_equal(environment_of(env={"NCCL_IB_GID_INDEX": "3"}).get("NCCL_IB_GID_INDEX"), "3")


def test_verbose__says_what_is_set_and_nothing_else():
    result = roci("run", "-v", "--mtu", "1024", "--", "echo", "hello", env={"NCCL_IB_GID_INDEX": "3"})
    tap.check_equal(result.stdout, "hello\n")
    names = [line.removeprefix("roci: set ").partition("=")[0] for line in result.stderr.splitlines()]
    tap.check_equal(sorted(name for name in names if name != "ASAN_OPTIONS"),
                    ["LD_LIBRARY_PATH", "LD_PRELOAD", "ROCI_MTU"])
    tap.check("roci: set ROCI_MTU=1024" in result.stderr.splitlines(), result.stderr)


def test_shim__the_redirector_is_preloaded():
    redirector = SHIM / "libroci-redirect.so"
    tap.check(redirector.exists(), f"no {redirector}")
    for before in ("", "/a.so"):
        preloads = environment_of(env={"LD_PRELOAD": before})["LD_PRELOAD"].split(":")
        tap.check(str(redirector) in preloads, preloads)
        tap.check(before == "" or preloads[-1] == before, preloads)


def test_shim__found_from_an_installed_prefix_wherever_it_is_moved():
    with in_folder() as folder:
        install = ["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", folder]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL, timeout=120)
        installed = [path for path in pathlib.Path(folder).rglob("roci") if path.is_file()]
        tap.check_equal([path.parent.name for path in installed], ["bin"], "places of roci")
        prefix = installed[0].parents[1]
        moved = prefix.rename(pathlib.Path(folder, "moved"))
        found = pathlib.Path(environment_of(program=moved / "bin" / "roci")["LD_LIBRARY_PATH"])
        tap.check(found.is_relative_to(moved), f"{found} is not below {moved}")
        tap.check((found / "libibverbs.so.1").exists(), f"{found} has no libibverbs.so.1")


def test_shim__in_a_folder_that_the_loader_cannot_name():
    for name in ("with blank", "with:colon"):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, name, "build", "tools", "roci")
            program.parent.mkdir(parents=True)
            shutil.copy(ROCI, program)
            (program.parents[1] / "verbs-shim").mkdir()
            (program.parents[1] / "verbs-shim" / "lib").symlink_to(SHIM)
            result = roci("run", "--", "true", program=program)
            tap.check_equal(result.returncode, 125, "exit status")
            tap.check(name in result.stderr and "LD_PRELOAD" in result.stderr, result.stderr)


def test_limit__on_the_size_of_files_is_an_error_that_names_it():
    limited = f"ulimit -f 100; exec {ROCI} run --link cable:limit.{os.getpid()} -- {CRASH} abort"
    result = subprocess.run(["bash", "-c", limited], env=PLAIN, capture_output=True, text=True, timeout=60)
    tap.check("ulimit -f" in result.stderr, f"{result.returncode}: {result.stderr}")
    tap.check_equal([name for name in os.listdir("/dev/shm") if f"limit.{os.getpid()}" in name], [], "left behind")


def test_shim__missing_is_an_error_that_says_where_it_was_looked_for():
    with in_folder() as folder:
        pathlib.Path(folder, "bin").mkdir()
        lonely = pathlib.Path(shutil.copy(ROCI, pathlib.Path(folder, "bin")))
        result = roci("run", "--", "true", program=lonely)
        tap.check_equal(result.returncode, 125, "exit status")
        tap.check(folder in result.stderr, result.stderr)


def test_settings__none_given_leave_the_defaults_to_the_library():
    with in_folder() as folder:
        tap.check_equal(settings_of(cwd=folder), {}, "ROCI_*")


def test_settings__each_option_reaches_its_variable():
    with in_folder({"x.faults": "drop rate=5%\n"}) as folder:
        got = settings_of(
            *("--link", "cable:a", "--name", "roci7", "--ip", "198.18.0.9/24", "--ip=fd00::9/64", "--host", "h"),
            *("--mtu", "1024", "--progress", "thread", "--capture", "x.pcapng", "--faults", "x.faults"),
            cwd=folder,
        )
        wanted = {
            "ROCI_LINK": "cable:a",
            "ROCI_NAME": "roci7",
            "ROCI_IP": "198.18.0.9/24,fd00::9/64",
            "ROCI_HOST": "h",
            "ROCI_MTU": "1024",
            "ROCI_PROGRESS": "thread",
            "ROCI_CAPTURE": str(pathlib.Path(folder).resolve() / "x.pcapng"),
            "ROCI_FAULTS": str(pathlib.Path(folder).resolve() / "x.faults"),
        }
        tap.check_equal(got, wanted, "ROCI_*")


def test_settings__option_before_environment_before_file():
    file = 'mtu = 512\nlink = "cable:file"\nname = "file"\nip = ["198.18.0.3/24", "fd00::3/64"]\n'
    with in_folder({"roci.toml": file, "other.toml": "mtu = 256\n"}) as folder:
        environment = {"ROCI_LINK": "cable:environment", "ROCI_NAME": "environment"}
        got = settings_of("--name", "option", env=environment, cwd=folder)
        wanted = {"ROCI_NAME": "option", "ROCI_LINK": "cable:environment", "ROCI_MTU": "512"}
        tap.check_equal(got, {**wanted, "ROCI_IP": "198.18.0.3/24,fd00::3/64"}, "ROCI_*")
        tap.check_equal(settings_of("--config", "other.toml", cwd=folder), {"ROCI_MTU": "256"}, "ROCI_*")


def test_settings__the_last_of_a_repeated_option_holds():
    tap.check_equal(settings_of("--mtu", "256", "--mtu", "512"), {"ROCI_MTU": "512"}, "ROCI_*")


def test_refused__bad_values_name_the_option_the_value_and_what_is_near():
    for option, value, near in (
        ("--link", "cabel:x", '"cable"'),
        ("--link", "cable:a/b", "letters"),
        ("--link", "cable:", "empty"),
        ("--name", "ro ci", "letters"),
        ("--host", "h" * 64, "63"),
        ("--ip", "198.18.0.1", "A/LEN"),
        ("--ip", "198.18.0.256/24", "A/LEN"),
        ("--ip", "198.18.0.1/33", "32"),
        ("--ip", "fd00::1/129", "128"),
        ("--ip", "fd00::1/", "128"),
        ("--ip", "224.0.0.1/24", "one host"),
        ("--ip", "::/64", "one host"),
        ("--ip", "::ffff:198.18.0.1/120", "IPv4"),
        ("--ip", "198.18.0.1/24,198.18.0.1/16", "already"),
        ("--mtu", "1500", "nearest: 1024"),
        ("--mtu", "9000", "nearest: 4096"),
        ("--mtu", "4k", "4096"),
        ("--progress", "thraed", '"thread"'),
        ("--cores", "0,x", "number of a core"),
        ("--cores", "0,0", "twice"),
        ("--cores", "4000", "cannot run on core 4000"),
        ("--capture", "folder/", "folder"),
    ):
        check_refused(roci("run", option, value, "--", "true"), f"{option} {value}", near)


def test_refused__settings_that_exclude_each_other():
    check_refused(roci("run", "--cores", "0", "--progress", "inline", "--", "true"), "inline", "cores")
    if os.cpu_count() > 1:
        check_refused(roci("run", "--cores", "0,1", "--link", "netdev:eth0", "--", "true"), "netdev", "one queue")


def test_refused__bad_values_in_the_environment_name_the_variable():
    check_refused(roci("run", "--", "true", env={"ROCI_MTU": "1500"}), "ROCI_MTU=1500", "1024")
    check_refused(roci("run", "--", "true", env={"ROCI_LNK": "cable:x"}), "ROCI_LNK", '"ROCI_LINK"')


def test_refused__bad_files_name_file_and_line():
    for text, wanted in (
        ('link = "cable:x"\nmtuu = 512\n', ("f.toml:2:", '"mtuu"', '"mtu"')),
        ("\n\nmtu = 1500\n", ("f.toml:3:", "1500", "1024")),
        ("name = true\n", ("f.toml:1:", "name")),
        ('host = ["a", "b"]\n', ("f.toml:1:", "host")),
        ("mtu = = 3\n", ("f.toml:1:",)),
    ):
        with in_folder({"f.toml": text}) as folder:
            check_refused(roci("run", "--config", "f.toml", "--", "true", cwd=folder), *wanted)
    check_refused(roci("run", "--config", "/no/such.toml", "--", "true"), "/no/such.toml")
    check_refused(roci("run", "--config", "/tmp", "--", "true"), "/tmp", "folder")


def test_refused__unknown_options_and_commands_name_the_nearest():
    check_refused(roci("run", "--lnik", "cable:x", "--", "true"), '"--lnik"', '"--link"')
    check_refused(roci("run", "--progres=auto", "--", "true"), '"--progres"', '"--progress"')
    check_refused(roci("rnu"), '"rnu"', '"run"')
    check_refused(roci("run", "--link"), "--link")
    check_refused(roci("run", "--ip", "198.18.0.1/24", "198.18.0.2/24", "--", "true"), '"198.18.0.2/24"')


def test_refused__before_the_program_starts():
    with in_folder() as folder:
        roci("run", "--mtu", "1500", "--", "touch", "started", cwd=folder)
        tap.check_equal(os.listdir(folder), [], "files")


def test_help__everywhere():
    for arguments in (("--help",), ("-h",), ("run", "--help")):
        result = roci(*arguments)
        tap.check_equal(result.returncode, 0, "exit status")
        tap.check("run" in result.stdout and result.stderr == "", result.stdout + result.stderr)
    tap.check(re.fullmatch(r"roci \d+\.\d+\.\d+\n", roci("--version").stdout), roci("--version").stdout)


def stderr_on_a_terminal(env):
    try:
        ours, theirs = pty.openpty()
    except OSError as reason:
        raise tap.Skip(f"no terminal can be made: {reason}")
    subprocess.run([ROCI, "rnu"], env={**PLAIN, **env}, stdin=subprocess.DEVNULL, stderr=theirs, timeout=60)
    os.close(theirs)
    text = os.read(ours, 65536)
    os.close(ours)
    return text


def test_colour__only_on_a_terminal():
    tap.check("\x1b" not in roci("rnu").stderr, "colour without a terminal")
    tap.check(b"\x1b" in stderr_on_a_terminal({}), "no colour on a terminal")
    tap.check(b"\x1b" not in stderr_on_a_terminal({"NO_COLOR": "1"}), "colour in spite of NO_COLOR")


if __name__ == "__main__":
    tap.main(globals())
