// Where a stack on a link without shared memory keeps its counters: a small file that `roci stat` finds.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "drivers/dpdk/dpdk_counters.h"
#include "stack/base/counters.h"
#include "stack/wire/address.h"

namespace roci {

struct StackIdentity {
  std::string link;
  std::string device_name;
  std::string driver;  ///< what moves its frames, for people
  std::vector<IpAddress> addresses;
};

/// The file lives as long as its owner holds a lock on it, which ends with the process at the latest.
class StackFile {
 public:
  /// Null with errno on failure.
  static std::unique_ptr<StackFile> create(const StackIdentity& identity);
  ~StackFile();
  StackFile(const StackFile&) = delete;
  StackFile& operator=(const StackFile&) = delete;

  Counters* counters();
  DpdkCounters* port_counters();
  /// The process is ending: nobody is to find the file. The counters stay usable.
  void remove();
  void set_driver(const std::string& driver);
  void set_addresses(const std::vector<IpAddress>& addresses);

 private:
  struct Record;
  friend struct StackFiles;

  StackFile() = default;

  std::string path_;
  int fd_ = -1;
  Record* record_ = nullptr;
};

/// One stack as it was when looked at. The text is as the process wrote it: bytes, not necessarily UTF-8.
struct RunningStack {
  StackIdentity identity;
  std::int32_t pid = 0;
  std::string program;
  std::array<std::uint64_t, kCounterInfos.size()> stack_counters{};
  QpRates rates{};
  std::array<std::uint64_t, kDpdkCounterInfos.size()> port_counters{};
};

/// The stacks of this user that have such a file, by process. Not for a process that has one itself, whose lock it
/// would drop.
std::vector<RunningStack> list_stacks();

}  // namespace roci
