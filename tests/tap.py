"""Runs functions as test cases and reports them in TAP, which Meson reads case by case."""

import sys
import traceback


class Skip(Exception):
    """Raised by a case that cannot run here; its text says why."""


def check(condition, text):
    """An assertion that says `text` when it fails."""
    if not condition:
        raise AssertionError(text)


def check_equal(got, wanted, what="value"):
    check(got == wanted, f"{what}: got {got!r}, wanted {wanted!r}")


def _explain(name, text):
    # Meson shows standard error of a failed test; of standard output it reads only the verdicts.
    for line in str(text).splitlines():
        print(f"# {name}: {line}", file=sys.stderr, flush=True)


def skip_all(reason):
    """For a program that cannot run here at all. Returns the exit status."""
    print(f"1..1\nok 1 - all of it # SKIP {reason}", flush=True)
    return 0


def run(cases):
    """Runs (name, function) pairs in order. Returns the exit status: 0, for the failures stand in the output."""
    cases = list(cases)
    print(f"1..{len(cases)}", flush=True)
    for number, (name, function) in enumerate(cases, 1):
        try:
            function()
            verdict = f"ok {number} - {name}"
        except Skip as reason:
            verdict = f"ok {number} - {name} # SKIP {reason}"
        except AssertionError as failure:
            _explain(name, failure)
            verdict = f"not ok {number} - {name}"
        except Exception:
            _explain(name, traceback.format_exc())
            verdict = f"not ok {number} - {name}"
        print(verdict, flush=True)
    return 0


def main(namespace, prefix="test_"):
    """Runs the functions of a module whose names start with `prefix`, in the order of the file."""
    functions = [(name, value) for name, value in namespace.items() if name.startswith(prefix) and callable(value)]
    sys.exit(run((name.removeprefix(prefix), function) for name, function in functions))
