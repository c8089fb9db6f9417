"""Runs rdma-core's Python tests as they are and writes what became of each: pyverbs_results.py FOLDER RESULTS, where
FOLDER/tests holds them. RESULTS has a line of JSON for each: name, verdict (pass, skip or fail), reason."""

import importlib
import json
import sys
import unittest

FOLDER, RESULTS = sys.argv[1:3]


class Recorder(unittest.TextTestResult):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.file = open(RESULTS, "w", buffering=1, encoding="utf-8")
        self.failed = set()

    def _record(self, test, verdict, reason=""):
        name = test.id().removeprefix("tests.")
        if verdict == "fail":
            if name in self.failed:
                return
            self.failed.add(name)
        self.file.write(json.dumps({"name": name, "verdict": verdict, "reason": reason}) + "\n")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "pass")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._record(test, "skip", reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._record(test, "fail", str(err[1]))

    def addError(self, test, err):
        super().addError(test, err)
        self._record(test, "fail", str(err[1]))

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._record(test, "fail", str(err[1]))


def main():
    sys.path[:0] = [FOLDER, f"{FOLDER}/tests"]
    sys.argv[1:] = ["--dev", "roci0", "--port", "1", "--gid", "0", "-v"]
    importlib.import_module("args_parser").parser.parse_args()
    tests = unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module("tests"))
    result = unittest.TextTestRunner(verbosity=2, resultclass=Recorder).run(tests)
    return 0 if result.wasSuccessful() else 1


sys.exit(main())
