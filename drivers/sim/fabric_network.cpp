#include "drivers/sim/fabric_network.h"

#include "stack/base/assert.h"
#include "stack/egress/pacer.h"

namespace roci::sim {
namespace {

/// A host has handed over some frames when PFC stops it; the formula for headroom knows of one.
Duration host_response(const fabric::SwitchConfig& config, std::uint64_t rate_bps) {
  const std::uint32_t wire_bytes = config.max_frame_bytes + egress::kWireOverheadBytes;
  return egress::wire_time(wire_bytes, rate_bps) * (FabricPort::kTxFrames - 1);
}

}  // namespace

std::vector<fabric::SwitchPortConfig> switch_ports(const fabric::SwitchConfig& config,
                                                   const fabric::TopologySwitch& topology, std::uint32_t number) {
  std::vector<fabric::SwitchPortConfig> ports;
  for (const fabric::TopologyPort& port : topology.ports) {
    const auto index = static_cast<std::uint8_t>(ports.size());
    const MacAddress mac{
        {0x02, 0x01, static_cast<std::uint8_t>(number >> 8), static_cast<std::uint8_t>(number), 0, index}};
    const Duration response = port.peer.is_host ? host_response(config, port.rate_bps) : Duration{};
    ports.push_back({.rate_bps = port.rate_bps, .delay = port.delay, .mac = mac, .pfc_response = response});
  }
  return ports;
}

FabricSwitch::FabricSwitch(EventQueue& events, const fabric::SwitchConfig& config,
                           const fabric::TopologySwitch& topology, fabric::FramePool& pool, std::uint64_t seed,
                           std::uint32_t number)
    : events_(events),
      model_(config, switch_ports(config, topology, number), topology.routes, pool, seed, number),
      due_(topology.ports.size(), kNever) {
  for (std::size_t i = 0; i < topology.ports.size(); ++i) links_.push_back(std::make_unique<FabricLink>(events));
}

void FabricSwitch::on_arrival(unsigned port, fabric::Frame* frame, Instant now) {
  const fabric::Passage passage = model_.pass(port, frame, now);
  if (const fabric::Transmission& sent = passage.transmission; sent.frame != nullptr)
    return links_[passage.port]->send(sent.frame, sent.arrives);
  model_.receive(port, frame, now);
  turn_woken(now);
}

void FabricSwitch::on_event(Instant now, std::uint64_t argument) {
  const auto port = static_cast<unsigned>(argument);
  if (due_[port] != now) return;
  due_[port] = kNever;
  turn(port, now);
  turn_woken(now);
}

void FabricSwitch::turn_woken(Instant now) {
  // A turn can wake others, at the end of the list.
  for (std::size_t i = 0; i < model_.woken().size(); ++i) turn(model_.woken()[i], now);
  model_.clear_woken();
}

/// Lets the port do what is due, and schedules what is due later.
void FabricSwitch::turn(unsigned port, Instant now) {
  Instant next = model_.next_deadline(port, now);
  while (next <= now) {
    const fabric::Transmission sent = model_.advance(port, now);
    if (sent.frame != nullptr) links_[port]->send(sent.frame, sent.arrives);
    next = model_.next_deadline(port, now);
  }
  if (next >= due_[port]) return;
  due_[port] = next;
  events_.schedule(next, *this, port);
}

FabricNetwork::FabricNetwork(EventQueue& events, const fabric::Topology& topology, const fabric::SwitchConfig& config,
                             std::uint32_t large_frame_bytes, std::uint64_t seed)
    : topology_(topology), pool_(large_frame_bytes), host_links_(topology.hosts.size()) {
  for (const fabric::TopologySwitch& one : topology_.switches)
    switches_.push_back(std::make_unique<FabricSwitch>(events, config, one, pool_, seed, switches()));
  for (std::unique_ptr<FabricLink>& link : host_links_) link = std::make_unique<FabricLink>(events);
  for (std::uint32_t i = 0; i < switches(); ++i)
    for (unsigned port = 0; port < topology_.switches[i].ports.size(); ++port)
      connect(switches_[i]->link(port), topology_.switches[i].ports[port].peer);
}

FabricNetwork::~FabricNetwork() {
  for (const std::unique_ptr<FabricLink>& link : host_links_) link->clear(pool_);
  for (const std::unique_ptr<FabricSwitch>& one : switches_)
    for (unsigned port = 0; port < one->model().ports(); ++port) one->link(port).clear(pool_);
}

/// Links into hosts are connected when there is a NIC.
void FabricNetwork::connect(FabricLink& link, const fabric::LinkEnd& to) {
  if (!to.is_host) link.connect(*switches_[to.node], to.port);
}

FabricLink& FabricNetwork::link_to_host(std::uint32_t host) {
  const fabric::LinkEnd& peer = topology_.hosts[host].peer;
  ROCI_ASSERT(!peer.is_host);
  return switches_[peer.node]->link(peer.port);
}

std::unique_ptr<FabricPort> FabricNetwork::make_port(std::uint32_t host, fabric::Payload payload) {
  const auto hosts = static_cast<std::uint32_t>(topology_.hosts.size());
  auto port = std::make_unique<FabricPort>(host, hosts, topology_.hosts[host], pool_, *host_links_[host], payload);
  connect(*host_links_[host], topology_.hosts[host].peer);
  link_to_host(host).connect(*port, 0);
  return port;
}

std::uint64_t FabricNetwork::packet_hops() const {
  std::uint64_t hops = 0;
  for (const std::unique_ptr<FabricLink>& link : host_links_) hops += link->data_frames();
  for (const std::unique_ptr<FabricSwitch>& one : switches_)
    for (unsigned port = 0; port < one->model().ports(); ++port) hops += one->link(port).data_frames();
  return hops;
}

}  // namespace roci::sim
