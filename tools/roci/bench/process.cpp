#include "tools/roci/bench/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "drivers/live/clock.h"
#include "tools/roci/bench/parse.h"

namespace roci::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kNotFound = 127;
constexpr Duration kStartAtMost = seconds(20);
constexpr Duration kLook = milliseconds(5);

volatile sig_atomic_t interrupted = 0;

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// What stands behind `--`, if anything does.
const std::string& program_of(const Command& command) {
  const auto separator = std::find(command.begin(), command.end(), "--");
  return separator == command.end() ? command[0] : separator[1];
}

/// In the child: becomes the program.
[[noreturn]] void become(const Command& command, int output, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(kNotFound);
  signal(SIGINT, SIG_IGN);  // the terminal's: its parent ends it
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  dprintf(STDERR_FILENO, "%s: %s\n", arguments[0], std::strerror(errno));
  _exit(kNotFound);
}

}  // namespace

void catch_interrupts() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void check_interrupted() {
  if (interrupted != 0) throw Interrupted();
}

Child::Child(Command command) : command_(std::move(command)) {
  check_interrupted();
  output_ = memfd_create("output", MFD_CLOEXEC);
  const pid_t parent = getpid();
  pid_ = output_ < 0 ? -1 : fork();
  if (pid_ == 0) become(command_, output_, parent);
  if (pid_ > 0) pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
  if (pid_ > 0 && pidfd_ >= 0) return;
  const std::string reason = std::strerror(errno);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (output_ >= 0) close(output_);
  throw Failure(fmt::format("{}: {}", command_[0], reason));
}

Child::~Child() {
  if (!ended_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(pidfd_);
  close(output_);
}

bool Child::wait(Duration at_most) {
  if (ended_) return true;
  pollfd look{.fd = pidfd_, .events = POLLIN, .revents = 0};
  const int ready = poll(&look, 1, static_cast<int>(at_most.ns() / 1'000'000));
  check_interrupted();
  if (ready <= 0) return false;
  ended_ = waitpid(pid_, &status_, 0) == pid_;
  return ended_;
}

void Child::fail(const std::string& what) const {
  const std::string text = output();
  std::istringstream lines(text);
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);)
    if (line.find_first_not_of(" -*") != std::string::npos) all.push_back(line);
  constexpr std::ptrdiff_t kLastLines = 3;
  const auto first = all.end() - std::min<std::ptrdiff_t>(kLastLines, std::ssize(all));
  throw Failure(fmt::format("{} {}", program_of(command_), what),
                fmt::format("{}: {}", fmt::join(command_, " "), fmt::join(first, all.end(), " | ")));
}

void Child::expect_success(Duration at_most) {
  const Instant until = live_now() + at_most;
  while (!wait(milliseconds(100)))
    if (live_now() > until) fail(fmt::format("is not done after {} s", at_most.ns() / 1'000'000'000));
  if (!WIFEXITED(status_) || WEXITSTATUS(status_) != 0) fail("failed");
}

void Child::wait_until_listening(unsigned port) {
  const Instant until = live_now() + kStartAtMost;
  while (live_now() < until) {
    if (wait(kLook)) fail("ended instead of listening");
    for (const char* table : {"tcp", "tcp6"})
      if (lists_listener(contents(fmt::format("/proc/{}/net/{}", pid_, table)), port)) return;
  }
  fail("does not listen");
}

std::string Child::output() const {
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, lseek(output_, 0, SEEK_END))), '\0');
  const ssize_t got = pread(output_, text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
  return text;
}

Duration Child::cpu_time() const {
  clockid_t clock;
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) return {};
  return seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

std::string run_to_end(const Command& command, Duration at_most) {
  Child child(command);
  child.expect_success(at_most);
  return child.output();
}

bool is_installed(std::string_view program) {
  const char* path = std::getenv("PATH");
  std::istringstream folders((path == nullptr ? std::string() : std::string(path)) + ":/usr/sbin:/sbin");
  for (std::string folder; std::getline(folders, folder, ':');)
    if (!folder.empty() && access((fs::path(folder) / program).c_str(), X_OK) == 0) return true;
  return false;
}

unsigned free_tcp_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  socklen_t bytes = sizeof address;
  const bool good = probe >= 0 && bind(probe, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                    getsockname(probe, reinterpret_cast<sockaddr*>(&address), &bytes) == 0;
  if (probe >= 0) close(probe);
  if (!good) throw Failure(fmt::format("no free TCP port: {}", std::strerror(errno)));
  return ntohs(address.sin_port);
}

std::string own_path() { return fs::read_symlink("/proc/self/exe").string(); }

}  // namespace roci::bench
