// From a packet's BTH downwards: the Ethernet, IP and UDP headers of one path, written from a template, and the ICRC.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"
#include "stack/base/types.h"
#include "stack/qp/attributes.h"
#include "stack/wire/headers.h"
#include "stack/wire/opcodes.h"
#include "stack/wire/packet.h"
#include "stack/wire/route.h"

namespace roci {

/// What differs from packet to packet.
struct PacketPlan {
  Opcode opcode;
  Psn psn;
  std::uint32_t payload_bytes = 0;
  bool ack_requested = false;
  bool solicited = false;
  bool becn = false;          ///< tells the peer of a mark
  bool carries_data = false;  ///< a request or a READ response: marked ECN capable if the path's packets are
};

/// Owner: worker; set by control, under the baton.
class Path {
 public:
  /// `source` is the port's GID at av.sgid_index. `ecn_capable`: data is sent as ECT(0) (RFC 3168), so that switches
  /// may mark it.
  void set(const IpAddress& source, const AddressVector& av, std::uint16_t udp_source_port, Qpn dest_qpn,
           bool ecn_capable);

  const IpAddress& source() const { return source_; }
  const IpAddress& destination() const { return destination_; }

  /// Bytes of a full packet besides its payload, from an untagged Ethernet header to the ICRC.
  std::uint32_t full_packet_overhead() const {
    constexpr std::uint32_t kEthernetUdpBthIcrcBytes = 14 + 8 + 12 + 4;
    return kEthernetUdpBthIcrcBytes + l3_bytes_;
  }

  /// True for a packet that goes the other way: from this path's destination to its source.
  bool is_reverse_of(const PacketView& view) const {
    if (view.is_v4 != is_v4_) return false;
    const std::byte* addresses = view.raw_addresses();
    if (!is_v4_) return std::memcmp(addresses, reverse_.data(), reverse_.size()) == 0;
    return load_be<std::uint64_t>(addresses) == load_be<std::uint64_t>(reverse_.data());
  }

  /// Writes all headers up to and with the BTH into `frame`; returns where the extension headers go, then the payload.
  std::byte* open(std::byte* frame, const Route& route, const PacketPlan& plan) const;
  /// The same for a datagram between any two QPs: the path is an address handle's, which many share.
  std::byte* open_datagram(std::byte* frame, const Route& route, const PacketPlan& plan, Qpn source, Qpn target) const;
  /// Once extension headers and payload are there: pads, adds the ICRC and returns the size of the frame in bytes.
  std::uint32_t close(std::byte* frame, const Route& route, const PacketPlan& plan) const;
  /// A whole CNP for the peer's QP (IBTA A17.9.3), with `dscp` for its own; returns the size of the frame in bytes.
  std::uint32_t build_cnp(std::byte* frame, const Route& route, std::uint8_t dscp) const;

 private:
  static constexpr std::size_t kMaxL3L4Bytes = Ipv6Header::kSize + UdpHeader::kSize;

  std::array<std::byte, kMaxL3L4Bytes> headers_{};
  std::uint8_t l3_bytes_ = 0;
  bool is_v4_ = true;
  std::uint8_t traffic_class_ = 0;
  std::uint8_t data_traffic_class_ = 0;
  std::uint32_t flow_label_ = 0;
  std::uint16_t checksum_base_ = 0;      ///< of the IPv4 template with total length 0, not complemented
  std::array<std::byte, 32> reverse_{};  ///< addresses as in the header of a packet from the peer
  Qpn dest_qpn_;
  IpAddress source_;
  IpAddress destination_;
};

/// UDP source port of a connected QP: the same for both directions of a flow label, so that ECMP keeps packets in
/// order. The rule is the one Linux uses, which peers expect (flow label 0: from both QPNs).
std::uint16_t udp_source_port(std::uint32_t flow_label, Qpn local, Qpn remote);

}  // namespace roci
