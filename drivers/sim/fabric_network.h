// The simulated fabric: switches, the links between them, and a NIC for each host, driven by virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "drivers/fabric/frame.h"
#include "drivers/fabric/switch.h"
#include "drivers/fabric/topology.h"
#include "drivers/sim/event_queue.h"
#include "drivers/sim/fabric_link.h"
#include "drivers/sim/fabric_port.h"

namespace roci::sim {

/// As the switch of this number gets them: what Switch::check() has to look at.
std::vector<fabric::SwitchPortConfig> switch_ports(const fabric::SwitchConfig& config,
                                                   const fabric::TopologySwitch& topology, std::uint32_t number);

/// A switch, and one event for each of its ports.
class FabricSwitch : public EventTarget, public FrameReceiver {
 public:
  FabricSwitch(EventQueue& events, const fabric::SwitchConfig& config, const fabric::TopologySwitch& topology,
               fabric::FramePool& pool, std::uint64_t seed, std::uint32_t number);

  fabric::Switch& model() { return model_; }
  const fabric::Switch& model() const { return model_; }
  /// What leaves by `port`.
  FabricLink& link(unsigned port) { return *links_[port]; }

  void on_arrival(unsigned port, fabric::Frame* frame, Instant now) override;
  /// `argument`: the port that is due.
  void on_event(Instant now, std::uint64_t argument) override;

 private:
  void turn(unsigned port, Instant now);
  void turn_woken(Instant now);

  EventQueue& events_;
  fabric::Switch model_;
  std::vector<std::unique_ptr<FabricLink>> links_;
  std::vector<Instant> due_;  ///< of each port, the event that is scheduled; another is out of date
};

class FabricNetwork {
 public:
  /// Configurations that the switch and the topology find nothing wrong with. `large_frame_bytes`: of the longest.
  FabricNetwork(EventQueue& events, const fabric::Topology& topology, const fabric::SwitchConfig& config,
                std::uint32_t large_frame_bytes, std::uint64_t seed);
  ~FabricNetwork();
  FabricNetwork(const FabricNetwork&) = delete;
  FabricNetwork& operator=(const FabricNetwork&) = delete;

  const fabric::Topology& topology() const { return topology_; }
  /// The NIC of a host, which its host owns, and which is gone before the network. Once for each host, before frames,
  /// and with the same payload for all.
  std::unique_ptr<FabricPort> make_port(std::uint32_t host, fabric::Payload payload);

  std::uint32_t switches() const { return static_cast<std::uint32_t>(switches_.size()); }
  FabricSwitch& fabric_switch(std::uint32_t number) { return *switches_[number]; }
  const FabricSwitch& fabric_switch(std::uint32_t number) const { return *switches_[number]; }
  /// What leaves a host.
  FabricLink& host_link(std::uint32_t host) { return *host_links_[host]; }
  /// Into a host: the switch's side of the same link.
  FabricLink& link_to_host(std::uint32_t host);

  /// Data packets times the links that they have crossed.
  std::uint64_t packet_hops() const;
  fabric::FramePool& pool() { return pool_; }

 private:
  void connect(FabricLink& link, const fabric::LinkEnd& to);

  const fabric::Topology topology_;
  fabric::FramePool pool_;
  std::vector<std::unique_ptr<FabricSwitch>> switches_;
  std::vector<std::unique_ptr<FabricLink>> host_links_;
};

}  // namespace roci::sim
