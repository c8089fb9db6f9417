// Joining and leaving a cable: places, addresses, and what the dead have left behind. All under the join lock.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <utility>

#include "drivers/cable/cable.h"
#include "drivers/cable/peer.h"

namespace roci {
namespace {

using cable::EndRecord;
using cable::kMaxEnds;

constexpr std::uint32_t kFirstIpv4 = 0xc612'0001;  // 198.18.0.1

std::vector<IpAddress> default_addresses(std::uint32_t end) {
  IpAddress v6;
  v6.bytes[0] = 0xfd;
  v6.bytes[15] = static_cast<std::uint8_t>(end + 1);
  return {IpAddress::v4(kFirstIpv4 + end), v6};
}

MacAddress mac_of(const std::vector<IpAddress>& addresses, std::uint32_t end) {
  std::uint32_t v4 = kFirstIpv4 + end;
  for (const IpAddress& address : addresses) {
    if (!address.is_v4()) continue;
    v4 = address.v4_host_order();
    break;
  }
  return {{0x02, 0x00, static_cast<std::uint8_t>(v4 >> 24), static_cast<std::uint8_t>(v4 >> 16),
           static_cast<std::uint8_t>(v4 >> 8), static_cast<std::uint8_t>(v4)}};
}

template <std::size_t kBytes>
void copy_text(std::array<char, kBytes>& to, const std::string& from) {
  const std::size_t length = std::min(from.size(), kBytes - 1);
  std::memcpy(to.data(), from.data(), length);
  to[length] = '\0';
}

bool fail_full(std::string* error) {
  *error = "all " + std::to_string(kMaxEnds) + " ends of the cable are taken";
  errno = EUSERS;
  return false;
}

std::string program_name() {
  std::array<char, 32> name{};
  if (std::FILE* file = std::fopen("/proc/self/comm", "re")) {
    if (std::fgets(name.data(), name.size(), file) == nullptr) name[0] = '\0';
    std::fclose(file);
  }
  std::string text(name.data());
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace

CablePort::CablePort(std::shared_ptr<cable::SharedFile> file) : file_(std::move(file)) {}

std::unique_ptr<CablePort> CablePort::open(const CableConfig& config, std::string* error) {
  auto ends = open_ends(config, 1, error);
  return ends.empty() ? nullptr : std::move(ends.front());
}

std::vector<std::unique_ptr<CablePort>> CablePort::open_ends(const CableConfig& config, std::size_t count,
                                                             std::string* error) {
  auto file = std::make_shared<cable::SharedFile>();
  if (!file->open_and_lock(config.name, error)) return {};
  std::vector<std::unique_ptr<CablePort>> ends;
  bool joined = true;
  while (joined && ends.size() < count) {
    std::unique_ptr<CablePort> end(new CablePort(file));
    joined = end->join(config, ends.empty() ? nullptr : ends.front().get(), error);
    if (joined) ends.push_back(std::move(end));
  }
  const int reason = errno;
  if (!joined && !file->any_end_is_alive()) file->unlink();
  file->unlock_join();
  if (!joined) ends.clear();
  errno = reason;
  return ends;
}

bool CablePort::join(const CableConfig& config, const CablePort* first, std::string* error) {
  clear_dead_ends();
  if (first == nullptr ? !choose_identity(config, error) : !choose_place(*first, error)) return false;
  if (!file_->lock_end(self_)) {
    *error = std::string("lock: ") + std::strerror(errno);
    return false;
  }
  peers_ = std::make_unique<std::array<Peer, kMaxEnds>>();
  sink_ = std::make_unique<std::byte[]>(kSinkSlots * cable::kSlotBytes);
  speed_bps_ = config.speed_bps;
  for (std::uint32_t end = 0; end < kMaxEnds; ++end) file_->discard_ring(self_, end);
  write_record(config, first != nullptr);
  file_->header().generation.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

void CablePort::clear_dead_ends() {
  for (std::uint32_t end = 0; end < kMaxEnds; ++end) {
    EndRecord& record = file_->end(end);
    if (record.epoch.load(std::memory_order_relaxed) == 0 || file_->end_is_alive(end)) continue;
    record.epoch.store(0, std::memory_order_release);
    for (std::uint32_t to = 0; to < kMaxEnds; ++to) file_->discard_ring(end, to);
    file_->header().generation.fetch_add(1, std::memory_order_seq_cst);
  }
}

/// The lowest free place whose addresses nobody else has.
bool CablePort::choose_identity(const CableConfig& config, std::string* error) {
  const auto owner_of = [this](const IpAddress& address) -> const EndRecord* {
    const int end = find_end(address, Qpn{UINT32_MAX});
    return end < 0 ? nullptr : &file_->end(static_cast<std::uint32_t>(end));
  };
  const auto is_taken = [&](const IpAddress& address) {
    const EndRecord* owner = owner_of(address);
    return owner != nullptr && (config.host.empty() || config.host != owner->host.data());
  };
  std::vector<IpAddress> wanted = config.addresses;
  if (wanted.size() > cable::kMaxAddresses) {
    *error = "more than " + std::to_string(cable::kMaxAddresses) + " addresses";
    errno = EINVAL;
    return false;
  }
  for (std::uint32_t end = 0; end < kMaxEnds && !config.host.empty(); ++end) {
    const EndRecord& record = file_->end(end);
    if (record.epoch.load(std::memory_order_relaxed) == 0 || config.host != record.host.data()) continue;
    wanted.assign(record.addresses.begin(), record.addresses.begin() + record.address_count);
    mac_ = record.mac;
    break;
  }
  for (const IpAddress& address : wanted) {
    if (!is_taken(address)) continue;
    *error = "another process on the cable has this address";
    errno = EADDRINUSE;
    return false;
  }
  for (self_ = 0; self_ < kMaxEnds; ++self_) {
    if (file_->end(self_).epoch.load(std::memory_order_relaxed) != 0) continue;
    addresses_ = wanted.empty() ? default_addresses(self_) : wanted;
    if (std::none_of(addresses_.begin(), addresses_.end(), is_taken)) {
      if (mac_ == MacAddress{}) mac_ = mac_of(addresses_, self_);
      return true;
    }
  }
  return fail_full(error);
}

/// The lowest free place, for one more end of the host that `first` is.
bool CablePort::choose_place(const CablePort& first, std::string* error) {
  addresses_ = first.addresses_;
  mac_ = first.mac_;
  for (self_ = 0; self_ < kMaxEnds; ++self_)
    if (file_->end(self_).epoch.load(std::memory_order_relaxed) == 0) return true;
  return fail_full(error);
}

void CablePort::write_record(const CableConfig& config, bool is_follower) {
  EndRecord& record = file_->end(self_);
  std::memset(file_->counters(self_), 0, cable::kCounterRegionBytes);
  counters_ = reinterpret_cast<CableCounters*>(file_->counters(self_) + cable::kCableCountersWord);
  record.pid = getpid();
  record.is_follower = is_follower ? 1 : 0;
  record.mac = mac_;
  record.address_count = static_cast<std::uint32_t>(addresses_.size());
  std::copy(addresses_.begin(), addresses_.end(), record.addresses.begin());
  copy_text(record.host, config.host);
  copy_text(record.device_name, config.device_name);
  copy_text(record.program, program_name());
  record.bell.store(0, std::memory_order_relaxed);
  record.asleep.store(0, std::memory_order_relaxed);
  record.groups.store(0, std::memory_order_relaxed);
  record.heartbeat_ps.store(0, std::memory_order_relaxed);
  record.turn_count.store(0, std::memory_order_relaxed);
  record.incoming.store(0, std::memory_order_relaxed);
  epoch_ = file_->header().next_epoch++;
  if (file_->header().next_epoch == 0) file_->header().next_epoch = 1;
  record.epoch.store(epoch_, std::memory_order_release);
}

CablePort::~CablePort() { close(); }

void CablePort::close() {
  if (peers_ == nullptr) return;
  file_->lock_join();
  file_->end(self_).epoch.store(0, std::memory_order_release);
  file_->header().generation.fetch_add(1, std::memory_order_seq_cst);
  // The rings from here keep their memory: peers may not have taken the last frames. The next end in this place, or the
  // end of the cable, frees it.
  for (const Peer& peer : *peers_) {
    if (peer.producer.attached()) cable::SharedFile::unmap_ring(peer.producer.memory());
    if (peer.consumer.attached()) cable::SharedFile::unmap_ring(peer.consumer.memory());
  }
  file_->unlock_end(self_);
  if (!file_->any_end_is_alive()) file_->unlink();
  file_->unlock_join();
  peers_.reset();
}

}  // namespace roci
