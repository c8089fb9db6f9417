#!/usr/bin/env python3
"""What a review would otherwise have to look for in every file. Each check is one TAP line and names its offenders."""

import ast
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import rooms
import source
import tap

MAX_FILE_LINES = 800
MAX_LINE_COLUMNS = 120
MAX_FUNCTION_LINES = 70

FILES = source.tracked_files()
TEXTS = {path: source.read(path) for path in FILES if source.is_text(path)}
CPP = {path: text for path, text in TEXTS.items() if path.suffix in source.CPP_SUFFIXES}
# Sentences and tables of a document are as long as they are.
CODE = {path: text for path, text in TEXTS.items() if path.suffix not in (".md", ".txt")}

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)

# Calls that the stack leaves to drivers, or that have no place on the path of a packet.
BANNED = re.compile(
    r"""(?<![\w.>:])(?:std::|::)?
        (?: (?:malloc|calloc|realloc|free|s?rand|random|time|clock|clock_gettime|gettimeofday|nanosleep|u?sleep
             |v?f?printf|puts|abort)\s*\(
          | (?<=std::)(?:cout|cerr|mutex|recursive_mutex|shared_mutex|random_device|mt19937(?:_64)?|thread)\b
          | chrono::\w+_clock\b )""",
    re.VERBOSE,
)
BANNED_EXCEPT = {"stack/base/assert.h": {"fprintf", "abort"}}


def expect_none(offenders):
    offenders = list(offenders)
    tap.check(not offenders, "\n".join(offenders))


def lines_matching(texts, pattern, what):
    for path, text in texts.items():
        for number, line in enumerate(text.splitlines(), 1):
            if re.search(pattern, line):
                yield f"{path}:{number}: {what}"


def includes(path):
    """(line, opening mark, target) of each include."""
    for match in INCLUDE.finditer(CPP[path]):
        yield source.line_of(CPP[path], match.start()), match.group(1), match.group(2)


def test_every_folder_has_a_row_in_rooms():
    expect_none(f"{path}: add its folder to tests/tidy/rooms.py" for path in CPP if rooms.room_of(str(path)) is None)


def test_includes_point_one_way():
    expect_none(
        f"{path}:{line}: {rooms.room_of(str(path))} may not include {target}"
        for path in CPP
        for line, mark, target in includes(path)
        if mark == '"' and not rooms.may_include(str(path), target)
    )


def test_includes_name_files_from_the_root():
    expect_none(
        f'{path}:{line}: no file "{target}"'
        for path in CPP
        for line, mark, target in includes(path)
        if mark == '"' and not (source.ROOT / target).is_file()
    )


def test_headers_of_other_projects_stay_in_their_folders():
    expect_none(
        f"{path}:{line}: <{target}> is for {', '.join(places)}"
        for path in CPP
        for line, _, target in includes(path)
        for pattern, places in rooms.ONLY_IN.items()
        if re.fullmatch(pattern, target) and not rooms.may_see(str(path), places)
    )


def test_stack_and_cc_call_no_clock_heap_or_output():
    def offenders():
        for path, text in CPP.items():
            if not rooms.may_see(str(path), ["stack", "cc"]):
                continue
            code = source.code_only(text)
            for match in BANNED.finditer(code):
                name = re.split(r"[\s(]", match.group(0).strip())[0]
                if name.removeprefix("std::") not in BANNED_EXCEPT.get(str(path), ()):
                    yield f"{path}:{source.line_of(code, match.start())}: {name}"

    expect_none(offenders())


def test_files_are_short():
    expect_none(
        f"{path}: {text.count(chr(10))} lines, at most {MAX_FILE_LINES}"
        for path, text in CODE.items()
        if text.count("\n") > MAX_FILE_LINES
    )


def test_lines_are_short():
    too_long = "." * (MAX_LINE_COLUMNS + 1)
    expect_none(lines_matching(CODE, too_long, f"longer than {MAX_LINE_COLUMNS} columns"))


def test_functions_are_short():
    expect_none(
        f"{path}:{first}: a function of {last - first + 1} lines, at most {MAX_FUNCTION_LINES}"
        for path, text in CPP.items()
        for first, last in source.functions(text)
        if last - first + 1 > MAX_FUNCTION_LINES
    )


def test_nothing_is_left_for_later():
    marks = "|".join(["TO" + "DO", "FIX" + "ME", "X" + "XX", "HA" + "CK"])
    expect_none(lines_matching(TEXTS, rf"\b(?:{marks})\b", "do it or drop it"))


def test_no_path_of_one_machine():
    expect_none(lines_matching(TEXTS, r"(?<![\w.])/(?:home|root|work)/", "a path of one machine"))


def test_white_space():
    expect_none(lines_matching(TEXTS, r"[ \t\r]$", "white space at the end of the line"))
    expect_none(lines_matching(TEXTS, r"\t", "a tab"))
    expect_none(f"{path}: no newline at the end" for path, text in TEXTS.items() if text and not text.endswith("\n"))


def test_headers_have_pragma_once():
    expect_none(
        f"{path}: no #pragma once"
        for path, text in CPP.items()
        if path.suffix == ".h" and not re.search(r"^#pragma once$", text, re.MULTILINE)
    )


def test_every_source_is_built_and_every_header_included():
    included = {target for path in CPP for _, _, target in includes(path)}
    build_files = {path.parent: text for path, text in TEXTS.items() if path.name == "meson.build"}

    def is_built(path):
        named = re.compile(rf"['/]{re.escape(path.name)}'")
        return any(named.search(build_files.get(folder, "")) for folder in path.parents)

    expect_none(f"{path}: no meson.build names it" for path in CPP if path.suffix != ".h" and not is_built(path))
    expect_none(f"{path}: nothing includes it" for path in CPP if path.suffix == ".h" and str(path) not in included)


def test_every_test_script_is_run():
    callers = ("", ".md", ".build")  # other scripts, documents that tell people to run it, and Meson
    names = "\n".join(text for path, text in TEXTS.items() if path.suffix in callers)
    modules = "\n".join(text for path, text in TEXTS.items() if path.suffix == ".py")
    expect_none(
        f"{path}: no meson.build, script or document names it"
        for path in TEXTS
        if path.suffix in (".py", ".sh") and path.parts[0] == "tests"
        if path.name not in names and f'"{path.name}"' not in modules
        if not re.search(rf"\b(?:import|from) {re.escape(path.stem)}\b", modules)
    )


def test_links_in_documents_resolve():
    def offenders():
        for path, text in TEXTS.items():
            if path.suffix != ".md":
                continue
            for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
                link = next(filter(None, target))
                if re.match(r"[a-z]+:|#", link):
                    continue
                if not (source.ROOT / path.parent / link.split("#")[0]).exists():
                    yield f"{path}: {link} leads nowhere"

    expect_none(offenders())


def test_scripts_have_the_run_bit_and_parse():
    def offenders():
        for path, text in TEXTS.items():
            if not text.startswith("#!"):
                continue
            if not os.access(source.ROOT / path, os.X_OK):
                yield f"{path}: no run bit"
            if "bash" in text.splitlines()[0]:
                shell = subprocess.run(["bash", "-n", source.ROOT / path], capture_output=True, text=True)
                if shell.returncode != 0:
                    yield shell.stderr.strip()
            elif "python" in text.splitlines()[0]:
                ast.parse(text, str(path))

    expect_none(offenders())


def test_files_in_tools_are_scripts():
    expect_none(
        f"{path}: no #! line"
        for path in FILES
        if path.parts[0] == "tools" and len(path.parts) == 2 and path.suffix == "" and not source.is_script(path)
    )


if __name__ == "__main__":
    tap.main(globals())
