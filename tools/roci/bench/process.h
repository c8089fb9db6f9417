// Programs that `roci bench` starts, ends and reads.
#pragma once

#include <sys/types.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stack/base/types.h"

namespace roci::bench {

using Command = std::vector<std::string>;

inline Command joined(Command first, const Command& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// A measurement went wrong; the text says how, and the details what the program said last.
struct Failure : std::runtime_error {
  explicit Failure(const std::string& what, std::string details_of_it = "")
      : std::runtime_error(what), details(std::move(details_of_it)) {}

  std::string details;
};

/// It cannot be measured on this machine, for a reason that is nobody's fault.
struct Absence : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The user ended the run.
struct Interrupted : std::runtime_error {
  Interrupted() : std::runtime_error("interrupted") {}
};

/// From now on SIGINT and SIGTERM make whatever waits here throw Interrupted, so that nothing is left behind.
void catch_interrupts();
void check_interrupted();

/// A program with its output collected and nothing to read. It ends with this object, and with this process.
class Child {
 public:
  /// Throws Failure if there can be no process; a program that is not there exits with status 127.
  explicit Child(Command command);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// Waits; true once it has ended.
  bool wait(Duration at_most);
  /// Waits until it has ended well; throws Failure with its last lines if it does not or the time is over.
  void expect_success(Duration at_most);
  /// Waits until it listens on the TCP port, which is looked up in its own network namespace.
  void wait_until_listening(unsigned port);
  /// What it has printed so far.
  std::string output() const;
  /// CPU time of all its threads. Not once it has ended.
  Duration cpu_time() const;

 private:
  [[noreturn]] void fail(const std::string& what) const;

  const Command command_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  int output_ = -1;
  int status_ = 0;
  bool ended_ = false;
};

/// Runs a program to its end and gives what it printed. Throws as Child::expect_success().
std::string run_to_end(const Command& command, Duration at_most);

/// True if the PATH, or where system programs lie, has it.
bool is_installed(std::string_view program);

unsigned free_tcp_port();

/// This program, as a command.
std::string own_path();

}  // namespace roci::bench
