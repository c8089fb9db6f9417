// A port that no kernel knows: it answers for its addresses and finds its neighbours itself. All that it speaks to is
// on its own segment.
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "drivers/dpdk/surroundings.h"
#include "stack/neighbour/neighbourhood.h"

namespace roci::dpdk {
namespace {

/// RoCE's largest frames have to fit, with headroom.
constexpr std::uint32_t kBufferBytes = 8192 + 256;
constexpr std::uint32_t kWantedMtuBytes = 4200;
constexpr Duration kLinkLookInterval = milliseconds(100);

/// As on a cable: locally administered, and made of the address, so that different ones are different.
MacAddress mac_of(const IpAddress& address) {
  return {{0x02, 0x00, address.bytes[12], address.bytes[13], address.bytes[14], address.bytes[15]}};
}

/// A socket that a killed process left, which the next one could not bind: nobody listens there.
void remove_abandoned_socket(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) return;
  path.copy(address.sun_path, path.size());
  const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const bool is_abandoned = probe >= 0 &&
                            connect(probe, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
                            errno == ECONNREFUSED;
  if (probe >= 0) close(probe);
  if (is_abandoned) unlink(path.c_str());
}

/// The value of NAME=VALUE in a list that commas separate; empty if it is not there.
std::string argument(const std::string& list, const std::string& name) {
  const std::string key = "," + name + "=";
  const std::string padded = "," + list;
  const std::size_t at = padded.find(key);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + key.size();
  return padded.substr(begin, padded.find(',', begin) - begin);
}

/// The socket that a virtual device is going to make; empty for those that make none.
std::string listening_path(const std::string& device) {
  if (device.starts_with("net_vhost") && argument(device, "client") != "1") return argument(device, "iface");
  if (device.starts_with("net_virtio_user") && argument(device, "server") == "1") return argument(device, "path");
  return {};
}

/// NAME[,ARGUMENTS] on the bus of virtual devices.
EthdevConfig virtual_device(const std::string& text) {
  const std::size_t comma = text.find(',');
  return {.bus = "vdev",
          .device = text.substr(0, comma),
          .arguments = comma == std::string::npos ? std::string() : text.substr(comma + 1),
          .buffer_bytes = kBufferBytes};
}

class OwnSurroundings : public Surroundings {
 public:
  explicit OwnSurroundings(DpdkCounters& counters) : counters_(counters) {}

  bool open(const DpdkLinkConfig& config, std::string* error) {
    is_virtual_ = config.kind == "vdev";
    if (config.addresses.empty()) {
      *error = "nobody gives it an address: say which (--ip 198.18.0.1/24)";
      errno = EINVAL;
      return false;
    }
    if (is_virtual_) remove_abandoned_socket(listening_path(config.name));
    device_ =
        Ethdev::open(is_virtual_ ? virtual_device(config.name)
                                 : EthdevConfig{.bus = "pci", .device = config.name, .buffer_bytes = kBufferBytes},
                     error);
    if (device_ == nullptr) return false;
    description_ = device_->driver();
    attributes_.addresses = config.addresses;
    attributes_.mac = is_virtual_ ? mac_of(config.addresses.front()) : device_->mac();
    attributes_.link_mtu_bytes = device_->set_mtu(kWantedMtuBytes);
    device_->listen(is_virtual_);
    neighbourhood_.emplace(attributes_.mac, config.addresses);
    look_at_link();
    return true;
  }

  Ethdev& device() override { return *device_; }
  std::string description() const override { return description_; }

  bool follow(Instant now) override {
    if (now >= next_link_look_) {
      next_link_look_ = now + kLinkLookInterval;
      look_at_link();
    }
    neighbourhood_->on_deadline(now);
    return neighbourhood_->take_change();
  }

  std::optional<MacAddress> find(const IpAddress& destination, Instant now) override {
    return neighbourhood_->find(destination, now);
  }
  void forget(const IpAddress& destination) override { neighbourhood_->forget(destination); }

  bool take(std::span<const std::byte> frame, Instant now) override {
    if (!neighbourhood_->take(frame, now)) return false;
    const NeighbourCounters& seen = neighbourhood_->counters();
    counters_.port_rx_arp = seen.arp;
    counters_.port_rx_discovery = seen.discovery;
    counters_.port_rx_echo = seen.echo;
    counters_.port_rx_bad_neighbour = seen.malformed;
    counters_.port_address_conflicts = seen.conflicts;
    counters_.port_answer_drops = seen.answer_drops;
    return true;
  }
  std::span<const std::byte> next_frame() override { return neighbourhood_->next_frame(); }
  Instant next_deadline() const override { return neighbourhood_->next_deadline(); }

 private:
  /// The other end of a virtual device may come later and go: frames wait for it, as on a cable.
  void look_at_link() {
    const Ethdev::Link link = device_->link();
    if (link.is_up && !was_up_) neighbourhood_->announce();
    was_up_ = link.is_up;
    const bool is_up = link.is_up || is_virtual_;
    is_changed_ |= is_up != attributes_.link_up;
    attributes_.link_up = is_up;
    constexpr std::uint64_t kAssumedSpeed = 10'000'000'000;
    attributes_.speed_bps = link.speed_bps != 0 ? link.speed_bps : kAssumedSpeed;
  }

  DpdkCounters& counters_;
  std::unique_ptr<Ethdev> device_;
  std::string description_;
  std::optional<Neighbourhood> neighbourhood_;
  bool is_virtual_ = false;
  bool was_up_ = false;
  Instant next_link_look_{};
};

}  // namespace

std::unique_ptr<Surroundings> open_own_device(const DpdkLinkConfig& config, std::string* error) {
  auto made = std::make_unique<OwnSurroundings>(*config.counters);
  if (!made->open(config, error)) return nullptr;
  return made;
}

}  // namespace roci::dpdk
