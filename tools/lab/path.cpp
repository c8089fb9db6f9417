#include "tools/lab/path.h"

#include <algorithm>
#include <vector>

#include "stack/base/assert.h"
#include "stack/egress/pacer.h"

namespace roci::lab {
namespace {

// Ethernet 14, IPv4 20, UDP 8, BTH 12, ICRC 4; preamble, FCS and gap 24 (IBTA A17, IEEE 802.3).
constexpr std::uint32_t kPacketOverheadBytes = 14 + 20 + 8 + 12 + 4 + egress::kWireOverheadBytes;
constexpr std::uint32_t kRethBytes = 16;
constexpr std::uint32_t kAckWireBytes = kPacketOverheadBytes + 4;
constexpr std::uint32_t kPadTo = 4;

std::uint32_t padded(std::uint64_t bytes) { return static_cast<std::uint32_t>((bytes + kPadTo - 1) / kPadTo * kPadTo); }

/// As egress::wire_time(), for more bytes than a frame has.
Duration transfer_time(std::uint64_t bytes, std::uint64_t rate_bps) {
  __extension__ using Wide = unsigned __int128;
  constexpr Wide kBitPicosecondsPerByte = 8'000'000'000'000;
  return {static_cast<std::int64_t>(bytes * kBitPicosecondsPerByte / rate_bps)};
}

/// The links from host to host, by the first of equally near ports.
std::vector<fabric::TopologyPort> links_between(const fabric::Topology& topology, std::uint32_t source,
                                                std::uint32_t destination) {
  std::vector<fabric::TopologyPort> links{topology.hosts[source]};
  while (!links.back().peer.is_host) {
    const fabric::TopologySwitch& at = topology.switches[links.back().peer.node];
    const auto ports = at.routes.ports(destination);
    ROCI_ASSERT(!ports.empty());
    links.push_back(at.ports[ports[0]]);
  }
  return links;
}

/// The time for one frame from end to end, stored and forwarded.
Duration one_way(const std::vector<fabric::TopologyPort>& links, std::uint32_t wire_bytes) {
  Duration time{};
  for (const fabric::TopologyPort& link : links)
    time = time + link.delay + egress::wire_time(wire_bytes, link.rate_bps);
  return time;
}

}  // namespace

Duration ideal_fct(const fabric::Topology& topology, std::uint32_t source, std::uint32_t destination,
                   std::uint64_t bytes, std::uint32_t mtu_bytes, std::uint32_t message_bytes) {
  const std::vector<fabric::TopologyPort> links = links_between(topology, source, destination);
  std::uint64_t slowest_bps = UINT64_MAX;
  for (const fabric::TopologyPort& link : links) slowest_bps = std::min(slowest_bps, link.rate_bps);
  const std::uint64_t messages = (bytes + message_bytes - 1) / message_bytes;
  const std::uint64_t last_message = bytes - (messages - 1) * message_bytes;
  const std::uint64_t packets =
      (messages - 1) * ((message_bytes + mtu_bytes - 1) / mtu_bytes) + (last_message + mtu_bytes - 1) / mtu_bytes;
  const std::uint64_t last_payload = last_message - (last_message - 1) / mtu_bytes * mtu_bytes;
  const bool last_has_reth = last_message <= mtu_bytes;
  const std::uint32_t last_wire = padded(last_payload) + kPacketOverheadBytes + (last_has_reth ? kRethBytes : 0);
  const Duration ack = one_way(links, kAckWireBytes);
  if (packets == 1) return one_way(links, last_wire) + ack;
  // In a row of links of one rate a stream of frames takes the time of all on one link, and on each other link that of
  // the longest frame, behind which all others queue: a full first packet.
  const std::uint32_t full_wire = mtu_bytes + kPacketOverheadBytes;
  const std::uint64_t reths = messages - (last_has_reth ? 1 : 0);
  const std::uint64_t all_wire = (packets - 1) * full_wire + reths * kRethBytes + last_wire;
  const Duration longest = egress::wire_time(full_wire + kRethBytes, slowest_bps);
  return transfer_time(all_wire, slowest_bps) + one_way(links, full_wire + kRethBytes) - longest + ack;
}

Duration base_rtt(const fabric::Topology& topology, std::uint32_t source, std::uint32_t destination,
                  std::uint32_t mtu_bytes) {
  const std::vector<fabric::TopologyPort> links = links_between(topology, source, destination);
  return one_way(links, mtu_bytes + kPacketOverheadBytes) + one_way(links, kAckWireBytes);
}

}  // namespace roci::lab
