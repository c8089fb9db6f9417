#include "drivers/cable/directory.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <span>
#include <string_view>

#include "drivers/cable/layout.h"
#include "drivers/cable/shared_file.h"

namespace roci {
namespace {

using cable::EndRecord;

/// Text that another process may be writing: it need not end.
template <std::size_t kBytes>
std::string text_of(const std::array<char, kBytes>& bytes) {
  return std::string(bytes.begin(), std::find(bytes.begin(), bytes.end(), '\0'));
}

void copy_counters(const std::uint64_t* from, std::span<std::uint64_t> to) {
  for (std::size_t i = 0; i < to.size(); ++i) to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}

/// False if nobody is there, or if who is there changed meanwhile.
bool read_end(const cable::SharedFile& file, std::uint32_t index, CableEnd* end) {
  const EndRecord& record = file.end(index);
  const std::uint32_t epoch = record.epoch.load(std::memory_order_acquire);
  if (epoch == 0 || !file.end_is_alive(index)) return false;
  end->index = index;
  end->pid = record.pid;
  end->program = text_of(record.program);
  end->device_name = text_of(record.device_name);
  end->host = text_of(record.host);
  const std::uint32_t addresses = std::min(record.address_count, cable::kMaxAddresses);
  end->addresses.assign(record.addresses.begin(), record.addresses.begin() + addresses);
  copy_counters(file.counters(index), end->stack_counters);
  copy_counters(file.counters(index) + kCounterInfos.size(), words_of(end->rates));
  copy_counters(file.counters(index) + cable::kCableCountersWord, end->cable_counters);
  std::atomic_thread_fence(std::memory_order_acquire);
  return record.epoch.load(std::memory_order_relaxed) == epoch;
}

}  // namespace

std::vector<CableEnd> list_cable_ends() {
  std::vector<CableEnd> ends;
  for (const std::string& name : cable::names()) {
    cable::SharedFile file;
    if (!file.open_for_reading(cable::file_path(name))) continue;
    for (std::uint32_t index = 0; index < cable::kMaxEnds; ++index) {
      CableEnd end;
      if (!read_end(file, index, &end)) continue;
      end.cable = name;
      ends.push_back(std::move(end));
    }
  }
  return ends;
}

}  // namespace roci
