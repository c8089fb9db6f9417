#!/usr/bin/env python3
"""Runs a TAP test as an unprivileged user in user, network and mount namespaces of its own, with a read-only root and
no /dev but null, zero, random and shm: confined.py TEST [ARGUMENT...]."""

import os
import pathlib
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import tap  # noqa: E402

NOBODY = 65534
NAMESPACES = ["unshare", "--user", "--map-root-user", "--net", "--mount"]
# A mount that is locked (it came from a more privileged namespace) keeps flags that a remount has to repeat.
CONFINE = r"""
set -e
ip link set lo up
mount -t tmpfs -o mode=755 none /mnt
for device in null zero random; do touch /mnt/$device; mount --bind /dev/$device /mnt/$device; done
mkdir -m 1777 /mnt/shm
mount -t tmpfs -o mode=1777 none /mnt/shm
mount --rbind /mnt /dev
mount -o remount,bind,ro /dev
while read -r _ _ _ _ at flags _; do
  case $at in /proc*|/dev*|/mnt*) continue ;; esac
  mount -o "remount,bind,ro,${flags#r?,}" "$at" 2>/dev/null || :
done </proc/self/mountinfo
grep -q '^[^ ]* [^ ]* [^ ]* [^ ]* / ro' /proc/self/mountinfo || { echo "Bail out! the root is writable"; exit 1; }
export TMPDIR=/dev/shm HOME=/dev/shm
exec "$@"
"""


def can(prefix, test, path):
    return subprocess.run([*prefix, "test", test, path], check=False).returncode == 0


def without_root():
    """A command that gives up root, if there is root to give up, and a Python; root stays where the test, or every
    Python, can only be read by it."""
    nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    pythons = [sys.executable, "/usr/bin/python3"]
    if os.geteuid() == 0 and all(can(nobody, "-r", path) for path in sys.argv[1:] if os.path.exists(path)):
        for python in pythons:
            if can(nobody, "-x", python):
                return nobody, python
    return [], sys.executable


def why_not():
    for program in ("unshare", "setpriv", "ip", "mount"):
        if shutil.which(program) is None:
            return f"{program} is not installed"
    probe = subprocess.run([*NAMESPACES, "true"], capture_output=True, text=True, check=False)
    return "" if probe.returncode == 0 else f"no namespaces here: {probe.stderr.strip()}"


def main():
    reason = why_not()
    if reason:
        return tap.skip_all(reason)
    prefix, python = without_root()
    print(f"# {'as nobody' if prefix else 'as uid ' + str(os.geteuid())}", flush=True)
    command = [*prefix, *NAMESPACES, "sh", "-c", CONFINE, "sh", python, *sys.argv[1:]]
    os.execvp(command[0], command)


sys.exit(main())
