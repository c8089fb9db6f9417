#include "drivers/dpdk/eal.h"

#include <pthread.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <sched.h>
#include <signal.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace roci::dpdk {
namespace {

/// Enough for the pools of a few ports, in MiB.
constexpr std::uint64_t kMemoryMib = 256;

struct Start {
  std::vector<std::string> arguments;
  bool done = false;
  std::string error;
};

bool has_huge_pages() {
  namespace fs = std::filesystem;
  std::uint64_t free_kib = 0;
  std::error_code failed;
  for (const fs::directory_entry& folder : fs::directory_iterator("/sys/kernel/mm/hugepages", failed)) {
    std::uint64_t pages = 0;
    std::ifstream(folder.path() / "free_hugepages") >> pages;
    // hugepages-2048kB
    const std::string name = folder.path().filename();
    free_kib += pages * std::strtoull(name.c_str() + std::strlen("hugepages-"), nullptr, 10);
  }
  return free_kib >= kMemoryMib * 1024;
}

int first_allowed_cpu() {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) return cpu;
  return 0;
}

/// Nothing is shared with other processes and no file is left: each stack is on its own.
std::vector<std::string> arguments_of(const std::string& pci_device) {
  std::vector<std::string> arguments = {
      "rocinante", "--no-telemetry", "--log-level=error", "--iova-mode=va", "-l", std::to_string(first_allowed_cpu())};
  if (pci_device.empty())
    arguments.emplace_back("--no-pci");
  else
    arguments.insert(arguments.end(), {"-a", pci_device});
  const std::vector<std::string> memory =
      has_huge_pages() ? std::vector<std::string>{"--in-memory"}
                       : std::vector<std::string>{"--no-huge", "--no-shconf", "-m", std::to_string(kMemoryMib)};
  arguments.insert(arguments.end(), memory.begin(), memory.end());
  return arguments;
}

/// EAL pins the thread that starts it, and makes threads that inherit the signal mask: so it gets a thread of its own
/// that takes no signal.
void* start(void* argument) {
  auto* request = static_cast<Start*>(argument);
  std::vector<char*> argv;
  for (std::string& text : request->arguments) argv.push_back(text.data());
  request->done = rte_eal_init(static_cast<int>(argv.size()), argv.data()) >= 0;
  if (!request->done) request->error = std::string("DPDK does not start: ") + rte_strerror(rte_errno);
  return nullptr;
}

Start start_once(const std::string& pci_device) {
  Start request{.arguments = arguments_of(pci_device)};
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  const int failed = pthread_create(&thread, nullptr, start, &request);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (failed != 0)
    request.error = std::string("no thread for DPDK: ") + std::strerror(failed);
  else
    pthread_join(thread, nullptr);
  return request;
}

}  // namespace

bool start_eal(const std::string& pci_device, std::string* error) {
  static const Start started = start_once(pci_device);
  if (!started.done) *error = started.error;
  return started.done;
}

}  // namespace roci::dpdk
