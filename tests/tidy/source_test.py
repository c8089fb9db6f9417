#!/usr/bin/env python3
"""The tidy test's reading of C++ and of its own tables: what it must see, and what it must not take for an offence."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import rooms
import source
import tap
import tidy


def banned_in(code):
    return [match.group(0) for match in tidy.BANNED.finditer(source.code_only(code))]


def test_functions__plain_member_and_constructor():
    text = """namespace a {
int plain(int x) {
  if (x) {
    return 1;
  }
  return 0;
}
class B : public C {
 public:
  explicit B(int x)
      : x_{x},
        y_(x) {
    work();
  }
  int get() const { return x_; }

 private:
  int x_ = 0;
};
}  // namespace a
"""
    found = source.functions(text)
    tap.check((2, 7) in found, f"plain: {found}")
    tap.check((12, 14) in found, f"constructor: {found}")
    tap.check((15, 15) in found, f"member: {found}")
    tap.check(all(last - first < 6 for first, last in found), f"a container was taken for a function: {found}")


def test_functions__tables_and_types_are_none():
    text = """constexpr auto kRows = std::to_array<Row>({
    {1, 2},
    {3, 4},
});
struct Point {
  int x;
};
int kNumbers[] = {
    1, 2,
};
enum class E : int {
  kA,
};
#define WRAP(x) \\
  do {          \\
    x;          \\
  } while (0)
"""
    tap.check_equal(source.functions(text), [])


def test_functions__c_style_return_of_a_struct():
    tap.check_equal(source.functions("struct ibv_qp* make(struct ibv_pd* pd) {\n  return 0;\n}\n"), [(1, 3)])


def test_functions__braces_in_text_do_not_count():
    text = "void f() {\n  log(\"{\", '{');  // {\n  /* { */\n  n = 1'000'000;\n}\nvoid g() {}\n"
    tap.check_equal(source.functions(text), [(1, 5), (6, 6)])


def test_code_only__keeps_line_numbers():
    text = "/* a\n b */ int x;  // y\nconst char* s = R\"(\n{)\";\nint z;\n"
    code = source.code_only(text)
    tap.check_equal(code.count("\n"), text.count("\n"))
    tap.check("y" not in code and "{" not in code and "int z;" in code, code)


def test_banned__calls_are_seen():
    for code in ("malloc(4)", "std::free(p);", "::time(nullptr)", "x = rand();", "printf(f)", "usleep (3)",
                 "std::mutex m;", "std::cout << 1", "std::chrono::steady_clock::now()",
                 "clock_gettime(CLOCK_MONOTONIC, &t)"):
        tap.check(banned_in(code), f"not seen: {code}")


def test_banned__namesakes_are_not():
    for code in ("heap.free(p)", "port->time(3)", "Timer::time(x)", "on_timer(now)", '"malloc(3)"', "// rand()",
                 "snprintf(b, 3, f)", "free_slots(3)", "int mutex = 0;"):
        tap.check_equal(banned_in(code), [], code)


def test_rooms__one_way():
    for path, target in (("stack/qp/qp.cpp", "stack/egress/fifo.h"), ("stack/mem/a.h", "stack/base/types.h"),
                         ("drivers/cable/a.cpp", "stack/engine/port.h"), ("drivers/live/a.cpp", "drivers/cable/c.h")):
        tap.check(rooms.may_include(path, target), f"{path} should be allowed {target}")
    for path, target in (("stack/base/a.h", "stack/wire/b.h"), ("stack/mem/a.h", "stack/queues/b.h"),
                         ("stack/qp/a.cpp", "stack/engine/worker.h"), ("drivers/cable/a.cpp", "stack/engine/worker.h"),
                         ("stack/control/a.cpp", "drivers/live/b.h"), ("stack/base/a.h", "stack/basement/b.h")):
        tap.check(not rooms.may_include(path, target), f"{path} should not be allowed {target}")


if __name__ == "__main__":
    tap.main(globals())
