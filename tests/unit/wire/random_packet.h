// Whole packets as values, random ones among them.
#pragma once

#include <optional>
#include <vector>

#include "tests/unit/wire/random_header.h"

namespace roci::test {

/// A packet as values. Lengths, EtherTypes, the pad count, the IPv4 checksum and the ICRC follow from the rest.
struct PacketValues {
  EthernetHeader ethernet;
  std::optional<std::uint16_t> vlan_tci;
  bool is_v4 = true;
  std::uint8_t traffic_class = 0;
  std::uint8_t ttl = 64;
  std::uint32_t flow_label = 0;
  IpAddress source;
  IpAddress destination;
  std::uint16_t udp_source_port = 0;
  std::uint16_t udp_checksum = 0;
  Bth bth;
  XrcEth xrc_eth;
  Deth deth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  AtomicAckEth atomic_ack_eth;
  ImmDt imm_dt;
  Ieth ieth;
  CnpReserved cnp_reserved;
  std::vector<std::byte> payload;
  std::size_t trailer_bytes = 0;  ///< Ethernet padding after the ICRC
};

/// Every field at random but what `opcode` and the IP version fix; with a tag or not, with a trailer or not.
PacketValues random_packet(Draw& from, std::uint8_t opcode, bool is_v4);

/// RFC 1071, over any whole number of bytes.
std::uint16_t internet_checksum(const std::vector<std::byte>& header);

/// From the IP header up to the ICRC, without it.
std::vector<std::byte> emit_l3(const PacketValues& packet);

/// The whole frame, with the right ICRC.
std::vector<std::byte> emit(const PacketValues& packet);

}  // namespace roci::test
