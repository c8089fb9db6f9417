"""Reads the tree's text files, and C++ well enough to judge its form: comments and strings blanked, functions found."""

import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]

CPP_SUFFIXES = {".h", ".cpp", ".c"}
TEXT_SUFFIXES = CPP_SUFFIXES | {".py", ".md", ".build", ".toml", ".map", ".sh", ".txt"}

_TOKEN = re.compile(
    r"""//[^\n]*                           # comment to the end of the line
      | /\*.*?\*/                          # comment
      | R"(?P<tag>[^\s()\\]{0,16})\(.*?\)(?P=tag)"   # raw string
      | "(?:\\.|[^"\\\n])*"                # string
      | (?<![0-9a-zA-Z_])'(?:\\.|[^'\\\n])*'   # character, not the separator of 1'000
    """,
    re.DOTALL | re.VERBOSE,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
_CONTAINER = re.compile(
    r'^(?:template\s*<.*>\s*)?(?:inline\s+)?(?:namespace|class|struct|union|enum|extern\s*"")', re.DOTALL
)


def tracked_files():
    """Paths from the root of what git has, or of the whole tree where there is no git."""
    if (ROOT / ".git").exists():
        command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), "ls-files", "-z"]
        listed = subprocess.check_output(command, text=True)
        paths = [pathlib.PurePosixPath(name) for name in listed.split("\0") if name]
        return [path for path in paths if (ROOT / path).is_file()]
    found = (path.relative_to(ROOT) for path in sorted(ROOT.rglob("*")) if path.is_file())
    return [pathlib.PurePosixPath(path) for path in found if not path.parts[0].startswith("build")]


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def is_script(path):
    with open(ROOT / path, "rb") as file:
        return file.read(2) == b"#!"


def is_text(path):
    return path.suffix in TEXT_SUFFIXES or (path.suffix == "" and is_script(path))


def _blank(match):
    text = match.group(0)
    blank = re.sub(r"[^\n]", " ", text)
    return '"' + blank[1:-1] + '"' if text[0] in "\"R" else blank


def code_only(text):
    """The C++ text with the insides of comments, strings and characters blanked; lines keep their numbers."""
    return _TOKEN.sub(_blank, text)


def line_of(text, offset):
    return text.count("\n", 0, offset) + 1


def functions(text):
    """(first line, last line) of each function body. Takes braces at namespace or class level that are neither a
    container's nor an initializer's to be a function's; braces inside are part of it."""
    code = _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), code_only(text))
    found = []
    scopes = []  # (kind, first line)
    since = 0  # where the statement began that a brace may belong to
    for match in re.finditer(r"[{};]", code):
        mark = match.group(0)
        in_container = all(kind == "container" for kind, _ in scopes)
        if mark == "{":
            scopes.append((_kind(code[since : match.start()].strip(), in_container), line_of(code, match.start())))
        elif mark == "}" and scopes:
            kind, first = scopes.pop()
            if kind == "function":
                found.append((first, line_of(code, match.start())))
        since = match.end()
    return found


def _kind(head, in_container):
    if not in_container:
        return "inner"
    head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", head)
    if _CONTAINER.match(head) and not re.search(r"\)\s*(?:const|noexcept|override|final|\s)*$", head):
        return "container"
    if head.endswith(("=", "(")):
        return "data"
    if "(" in head or head == "" or head.startswith(","):
        return "function"
    return "data"
