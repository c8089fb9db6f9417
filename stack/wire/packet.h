// A received frame, parsed once: after parse_packet() says kOk, every accessor is total.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "stack/wire/address.h"
#include "stack/wire/headers.h"
#include "stack/wire/opcodes.h"

namespace roci {

/// As much of a frame as parsing ever looks at: with VLAN, IPv6 and the longest extension headers it is 18 + 40 + 8 +
/// 12 + 32 bytes.
inline constexpr std::size_t kHeaderCopyBytes = 128;

enum class ParseStatus : std::uint8_t {
  kOk,
  kTruncated,  ///< the frame ends before a header or before the length that the IP header tells
  kNotIp,      ///< another EtherType
  kArp,
  kPfc,          ///< MAC control
  kBadIpHeader,  ///< version, header length, checksum
  kFragment,
  kNotRoce,    ///< not UDP, or not to port 4791
  kBadLength,  ///< lengths contradict each other, or are too short for the opcode
  kUnknownOpcode,
  kBadTransportVersion,
  kBadPad,  ///< more pad than there are bytes
  kRoceV1,  ///< straight over Ethernet
};

std::string_view name_of(ParseStatus status);

class PacketView {
 public:
  bool is_v4 = true;
  bool has_vlan = false;
  std::uint8_t l3_offset = 0;  ///< of the IP header, from the start of the frame
  std::uint8_t bth_offset = 0;
  std::uint8_t traffic_class = 0;  ///< DSCP and ECN
  std::uint8_t ttl = 0;            ///< or hop limit
  std::uint16_t vlan_tci = 0;
  std::uint16_t udp_source_port = 0;
  Bth bth;
  const OpcodeInfo* info = nullptr;
  std::uint32_t payload_offset = 0;
  std::uint32_t payload_bytes = 0;  ///< without pad
  std::uint32_t icrc_offset = 0;

  IpAddress source() const { return is_v4 ? v4_at(12) : v6_at(8); }
  IpAddress destination() const { return is_v4 ? v4_at(16) : v6_at(24); }

  /// The IP header.
  const std::byte* l3_header() const { return header_.data() + l3_offset; }

  /// Source and destination as they lie in the header, one behind the other: 8 bytes for IPv4, 32 for IPv6.
  const std::byte* raw_addresses() const { return header_.data() + l3_offset + (is_v4 ? 12 : 8); }

  // Only for an opcode that has the extension.
  Reth reth() const { return Reth::read(at(Extension::kReth)); }
  Aeth aeth() const { return Aeth::read(at(Extension::kAeth)); }
  AtomicEth atomic_eth() const { return AtomicEth::read(at(Extension::kAtomicEth)); }
  AtomicAckEth atomic_ack_eth() const { return AtomicAckEth::read(at(Extension::kAtomicAckEth)); }
  ImmDt imm_dt() const { return ImmDt::read(at(Extension::kImmDt)); }
  Ieth ieth() const { return Ieth::read(at(Extension::kIeth)); }
  Deth deth() const { return Deth::read(at(Extension::kDeth)); }
  XrcEth xrc_eth() const { return XrcEth::read(at(Extension::kXrcEth)); }
  CnpReserved cnp_reserved() const { return CnpReserved::read(at(Extension::kCnpReserved)); }

 private:
  friend ParseStatus parse_packet(std::span<const std::byte> header, std::uint32_t frame_bytes, PacketView* view);
  friend ParseStatus parse_l3_packet(std::span<const std::byte> header, std::uint32_t packet_bytes, bool is_v4,
                                     PacketView* view);
  friend ParseStatus parse_from_l3(PacketView* view, std::uint32_t frame_bytes);
  friend ParseStatus parse_transport(PacketView* view, std::uint32_t udp_payload_bytes);

  const std::byte* at(Extension extension) const {
    return header_.data() + bth_offset + Bth::kSize + info->offset_of(extension);
  }
  IpAddress v4_at(std::size_t offset) const {
    return IpAddress::v4(load_be<std::uint32_t>(header_.data() + l3_offset + offset));
  }
  IpAddress v6_at(std::size_t offset) const {
    IpAddress address;
    std::memcpy(address.bytes.data(), header_.data() + l3_offset + offset, address.bytes.size());
    return address;
  }

  std::span<const std::byte> header_;
};

/// Parses a frame of `frame_bytes` from its Ethernet header on. `header` is a private copy of its first
/// min(frame_bytes, kHeaderCopyBytes) bytes (the frame may lie where another process can write), which the view refers
/// to; nothing else is read. Lengths come from the IP header: a short frame carries padding after the ICRC. The ICRC is
/// not checked here. On failure `*view` is of no use.
ParseStatus parse_packet(std::span<const std::byte> header, std::uint32_t frame_bytes, PacketView* view);

/// The same for a packet without Ethernet header.
ParseStatus parse_l3_packet(std::span<const std::byte> header, std::uint32_t packet_bytes, bool is_v4,
                            PacketView* view);

}  // namespace roci
