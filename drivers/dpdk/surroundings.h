// Who a port is on its network, and where the others are: as the kernel says, or found out by the port itself.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "drivers/dpdk/dpdk_link.h"
#include "drivers/dpdk/ethdev.h"
#include "stack/engine/port.h"

namespace roci::dpdk {

/// Owner: as DpdkPort, which asks once a turn at most.
class Surroundings {
 public:
  virtual ~Surroundings() = default;

  virtual Ethdev& device() = 0;
  const PortAttributes& attributes() const { return attributes_; }
  /// True once after attributes() changed.
  bool take_change() { return std::exchange(is_changed_, false); }
  /// What moves the frames, for people.
  virtual std::string description() const = 0;

  /// Looks for changes. True if find() may answer otherwise than before.
  virtual bool follow(Instant now) = 0;
  /// The MAC address that frames for `destination` go to, if it is known; else looks for it.
  virtual std::optional<MacAddress> find(const IpAddress& destination, Instant now) = 0;
  /// The destination is in use no more.
  virtual void forget(const IpAddress& destination) = 0;

  /// The port hears a multicast group from now on, or no longer.
  virtual void set_membership(const IpAddress&, bool) {}

  /// A frame that is not UDP. True if it was for nobody else.
  virtual bool take(std::span<const std::byte>, Instant) { return false; }
  /// The next frame that is to be sent beside the stack's; empty when there is none.
  virtual std::span<const std::byte> next_frame() { return {}; }
  /// When follow() is needed at the latest.
  virtual Instant next_deadline() const { return kNever; }
  /// Descriptors that are readable when a frame has arrived, or something has changed. None: nothing tells.
  virtual std::vector<int> doorbells() const { return {}; }

 protected:
  PortAttributes attributes_;
  bool is_changed_ = false;
};

/// A kernel interface. Null with errno and `*error` on failure; so are the others.
std::unique_ptr<Surroundings> open_netdev(const DpdkLinkConfig& config, std::string* error);
/// A device that only this process knows: vdev or pci.
std::unique_ptr<Surroundings> open_own_device(const DpdkLinkConfig& config, std::string* error);

}  // namespace roci::dpdk
