#include "tests/fuzz/frame_maker.h"

#include <algorithm>

#include "stack/wire/headers.h"
#include "stack/wire/icrc.h"
#include "stack/wire/opcodes.h"

namespace roci::fuzz {
namespace {

constexpr std::uint32_t kIcrcBytes = 4;
constexpr std::uint64_t kFromEnd = 1ull << 63;
constexpr std::uint64_t kOffsetMask = 0x7ff;
constexpr std::uint32_t kLongestPayload = 4100;  // longer than the largest MTU

/// Where the headers of a frame are, whatever it says of itself.
struct Offsets {
  bool is_v4;
  std::size_t l3;
  std::size_t bth;
};

Offsets offsets_of(const std::vector<std::byte>& frame) {
  std::size_t l3 = EthernetHeader::kSize;
  auto ether_type = load_be<std::uint16_t>(frame.data() + 12);
  if (ether_type == kEtherTypeVlan) {
    ether_type = load_be<std::uint16_t>(frame.data() + 16);
    l3 += VlanTag::kSize;
  }
  const bool is_v4 = ether_type == kEtherTypeIpv4;
  return {is_v4, l3, l3 + (is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize) + UdpHeader::kSize};
}

void repair_ip(std::vector<std::byte>& frame, const Offsets& at, const Target& target) {
  std::byte* l3 = frame.data() + at.l3;
  const auto ip_bytes = static_cast<std::uint16_t>(frame.size() - at.l3);
  if (at.is_v4) {
    Ipv4Header ip = Ipv4Header::read(l3);
    ip.version_ihl = 0x45;
    ip.total_bytes = ip_bytes;
    ip.flags_fragment = Ipv4Header::kDontFragment;
    ip.protocol = kIpProtocolUdp;
    ip.source = target.source.v4_host_order();
    ip.destination = target.destination.v4_host_order();
    ip.checksum = 0;
    ip.write(l3);
    ip.checksum = static_cast<std::uint16_t>(~ipv4_header_sum(l3));
    ip.write(l3);
  } else {
    Ipv6Header ip = Ipv6Header::read(l3);
    ip.version = 6;
    ip.payload_bytes = static_cast<std::uint16_t>(ip_bytes - Ipv6Header::kSize);
    ip.next_header = kIpProtocolUdp;
    ip.source = target.source;
    ip.destination = target.destination;
    ip.write(l3);
  }
}

void repair_addresses(std::vector<std::byte>& frame, const Target& target) {
  // With a tag the longest headers end within this.
  constexpr std::size_t kRoom = EthernetHeader::kSize + VlanTag::kSize + Ipv6Header::kSize + UdpHeader::kSize;
  if (frame.size() < kRoom + Bth::kSize) frame.resize(kRoom + Bth::kSize);
  if (!offsets_of(frame).is_v4) store_be<std::uint16_t>(frame.data() + 12, kEtherTypeIpv6);
  const Offsets at = offsets_of(frame);
  const std::size_t headers =
      at.bth + Bth::kSize + opcode_info(std::to_integer<std::uint8_t>(frame[at.bth])).extension_bytes;
  // Payload and ICRC in words.
  const std::size_t rest = frame.size() > headers + kIcrcBytes ? frame.size() - headers : kIcrcBytes;
  frame.resize(headers + rest / 4 * 4);
  repair_ip(frame, at, target);
  std::byte* udp = frame.data() + at.bth - UdpHeader::kSize;
  UdpHeader ports = UdpHeader::read(udp);
  ports.destination_port = kRoceUdpPort;
  ports.bytes = static_cast<std::uint16_t>(frame.size() - at.bth + UdpHeader::kSize);
  ports.write(udp);
  Bth bth = Bth::read(frame.data() + at.bth);
  bth.dest_qpn = target.qpn;
  if (bth.pad_count > frame.size() - headers - kIcrcBytes) bth.pad_count = 0;
  bth.write(frame.data() + at.bth);
}

std::uint64_t repaired_va(std::uint64_t va, const Target& target) {
  if ((va & kFromEnd) != 0) return target.va + target.region_bytes - (va & kOffsetMask);
  return target.va + (va & kOffsetMask);
}

void repair_memory(std::byte* extensions, const OpcodeInfo& info, const Target& target) {
  if (info.has(Extension::kReth)) {
    std::byte* at = extensions + info.offset_of(Extension::kReth);
    Reth reth = Reth::read(at);
    reth.rkey = target.rkey;
    reth.va = repaired_va(reth.va, target);
    reth.write(at);
  }
  if (info.has(Extension::kAtomicEth)) {
    std::byte* at = extensions + info.offset_of(Extension::kAtomicEth);
    AtomicEth atomic = AtomicEth::read(at);
    atomic.rkey = target.rkey;
    atomic.va = repaired_va(atomic.va, target);
    atomic.write(at);
  }
}

/// Bytes of payload that the packet's place in its message asks for.
std::uint32_t fitting_payload(const OpcodeInfo& info, const FrameTemplate& from, const Target& target) {
  const std::uint32_t mtu = target.mtu_bytes;
  if (!info.may_carry_payload()) return 0;
  if (info.operation == Operation::kRdmaReadResponse) return std::min(target.read_left, mtu);
  if (!info.is_last()) return mtu;
  if (info.operation == Operation::kRdmaWrite)
    return std::min(info.is_first() ? std::uint32_t{from.dma_bytes} : target.write_left, mtu);
  return std::min<std::uint32_t>(from.payload_bytes, mtu);
}

template <class T>
void put(std::vector<std::byte>& frame, const T& header) {
  frame.resize(frame.size() + T::kSize);
  header.write(frame.data() + frame.size() - T::kSize);
}

void put_extensions(std::vector<std::byte>& frame, const OpcodeInfo& info, const FrameTemplate& from) {
  const std::uint64_t va = (from.va_offset & 0x7fff) | ((from.va_offset & 0x8000) != 0 ? kFromEnd : 0);
  const std::uint32_t length = from.dma_bytes << ((from.flags & FrameTemplate::kLongRead) != 0 ? 16 : 0);
  const std::uint32_t fill = from.syndrome * 0x0101'0101u;
  const std::size_t start = frame.size();
  frame.resize(start + info.extension_bytes);
  std::byte* out = frame.data() + start;
  if (info.has(Extension::kReth)) Reth{.va = va, .dma_length = length}.write(out + info.offset_of(Extension::kReth));
  if (info.has(Extension::kAtomicEth))
    AtomicEth{.va = va, .swap_add = fill, .compare = from.dma_bytes}.write(out + info.offset_of(Extension::kAtomicEth));
  if (info.has(Extension::kAeth))
    Aeth{.syndrome = from.syndrome, .msn = from.dma_bytes}.write(out + info.offset_of(Extension::kAeth));
  if (info.has(Extension::kImmDt)) ImmDt{.raw = fill}.write(out + info.offset_of(Extension::kImmDt));
  if (info.has(Extension::kIeth)) Ieth{.rkey = RKey{fill}}.write(out + info.offset_of(Extension::kIeth));
}

}  // namespace

FrameTemplate FrameTemplate::read(Input& input) {
  FrameTemplate value;
  value.opcode = input.u8();
  value.psn_offset = input.u8();
  value.flags = input.u8();
  value.syndrome = input.u8();
  value.va_offset = input.u16();
  value.dma_bytes = input.u16();
  value.payload_bytes = input.u16();
  return value;
}

void repair(std::vector<std::byte>& frame, std::uint8_t repairs, std::int8_t psn_offset, const Target& target) {
  if ((repairs & kRepairAddresses) != 0) repair_addresses(frame, target);
  if (frame.size() < EthernetHeader::kSize + VlanTag::kSize) return;
  const Offsets at = offsets_of(frame);
  if (frame.size() < at.bth + Bth::kSize + kIcrcBytes) return;
  std::byte* bth_at = frame.data() + at.bth;
  Bth bth = Bth::read(bth_at);
  const OpcodeInfo& info = opcode_info(bth.opcode);
  if ((repairs & kRepairPsn) != 0) {
    const Psn from = info.is_response() ? target.response_psn : target.request_psn;
    const std::int32_t offset = (repairs & kFarPsn) != 0 ? psn_offset * 0x1'0000 : psn_offset;
    bth.psn = from + static_cast<std::uint32_t>(offset);
    bth.write(bth_at);
  }
  const std::size_t headers = at.bth + Bth::kSize + info.extension_bytes;
  if ((repairs & kRepairMemory) != 0 && frame.size() >= headers + kIcrcBytes)
    repair_memory(bth_at + Bth::kSize, info, target);
  if ((repairs & kRepairIcrc) == 0) return;
  const std::size_t end = frame.size() - kIcrcBytes;
  store_icrc(frame.data() + end, compute_icrc(frame.data() + at.l3, at.is_v4, static_cast<std::uint32_t>(end - at.l3)));
}

std::vector<std::byte> make_frame(const FrameTemplate& from, const Target& target) {
  const OpcodeInfo& info = opcode_info(from.opcode);
  const bool fits = (from.flags & FrameTemplate::kFits) != 0;
  const std::uint32_t payload = fits ? fitting_payload(info, from, target) : from.payload_bytes % kLongestPayload;
  const bool is_v4 = target.source.is_v4();
  std::vector<std::byte> frame;
  put(frame, EthernetHeader{.ether_type = is_v4 ? kEtherTypeIpv4 : kEtherTypeIpv6});
  frame.resize(frame.size() + (is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize) + UdpHeader::kSize);
  put(frame, Bth{.opcode = from.opcode,
                 .solicited = (from.flags & FrameTemplate::kSolicited) != 0,
                 .pad_count = static_cast<std::uint8_t>(-payload & 3),
                 .pkey = 0xffff,
                 .fecn = (from.flags & FrameTemplate::kCongestion) != 0,
                 .becn = (from.flags & FrameTemplate::kCongestion) != 0,
                 .ack_req = (from.flags & FrameTemplate::kAckRequested) != 0});
  put_extensions(frame, info, from);
  frame.resize(frame.size() + payload, std::byte{from.syndrome});
  frame.resize(frame.size() + (-payload & 3) + kIcrcBytes);
  std::uint8_t repairs = kRepairAddresses | kRepairPsn | kRepairIcrc;
  if ((from.flags & FrameTemplate::kWrongKey) == 0) repairs |= kRepairMemory;
  if ((from.flags & FrameTemplate::kFar) != 0) repairs |= kFarPsn;
  repair(frame, repairs, static_cast<std::int8_t>(from.psn_offset), target);
  if ((from.flags & FrameTemplate::kWrongIcrc) != 0) frame.back() ^= std::byte{1};
  return frame;
}

}  // namespace roci::fuzz
