// A frame parsed as the worker parses it, and its headers written back from their values.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

namespace roci::test {

/// Parses from a copy of the frame's head that is exactly as long as the contract asks for, on the heap, so that the
/// address sanitizer sees a read beyond it. `frame` outlives this.
class ParsedFrame {
 public:
  explicit ParsedFrame(std::span<const std::byte> frame, bool has_ethernet = true)
      : frame_(frame), head_(frame.begin(), frame.begin() + std::min(frame.size(), kHeaderCopyBytes)) {
    const auto bytes = static_cast<std::uint32_t>(frame.size());
    const bool is_v4 = !frame.empty() && (frame[0] >> 4) == std::byte{4};
    status = has_ethernet ? parse_packet(head_, bytes, &view) : parse_l3_packet(head_, bytes, is_v4, &view);
  }
  ParsedFrame(const ParsedFrame&) = delete;
  ParsedFrame& operator=(const ParsedFrame&) = delete;

  bool icrc_is_right() const {
    return compute_icrc(frame_.data() + view.l3_offset, view.is_v4, view.icrc_offset - view.l3_offset) ==
           load_icrc(frame_.data() + view.icrc_offset);
  }
  bool is_accepted() const { return status == ParseStatus::kOk && icrc_is_right(); }

  ParseStatus status{};
  PacketView view;

 private:
  std::span<const std::byte> frame_;
  std::vector<std::byte> head_;
};

namespace detail {

template <class T>
void rewrite(std::span<const std::byte> from, std::size_t offset, std::vector<std::byte>& to) {
  T::read(from.data() + offset).write(to.data() + offset);
}

inline void rewrite_extensions(const PacketView& view, std::vector<std::byte>& to) {
  const auto write_at = [&](Extension extension, const auto& value) {
    value.write(to.data() + view.bth_offset + Bth::kSize + view.info->offset_of(extension));
  };
  const auto has = [&](Extension extension) { return view.info->has(extension); };
  if (has(Extension::kXrcEth)) write_at(Extension::kXrcEth, view.xrc_eth());
  if (has(Extension::kDeth)) write_at(Extension::kDeth, view.deth());
  if (has(Extension::kReth)) write_at(Extension::kReth, view.reth());
  if (has(Extension::kAtomicEth)) write_at(Extension::kAtomicEth, view.atomic_eth());
  if (has(Extension::kAeth)) write_at(Extension::kAeth, view.aeth());
  if (has(Extension::kAtomicAckEth)) write_at(Extension::kAtomicAckEth, view.atomic_ack_eth());
  if (has(Extension::kImmDt)) write_at(Extension::kImmDt, view.imm_dt());
  if (has(Extension::kIeth)) write_at(Extension::kIeth, view.ieth());
  if (has(Extension::kCnpReserved)) write_at(Extension::kCnpReserved, view.cnp_reserved());
}

}  // namespace detail

/// The bytes up to the payload, each header read as a value and written again.
inline std::vector<std::byte> rewritten_headers(const PacketView& view, std::span<const std::byte> frame) {
  std::vector<std::byte> headers(view.payload_offset);
  if (view.l3_offset >= EthernetHeader::kSize) detail::rewrite<EthernetHeader>(frame, 0, headers);
  if (view.has_vlan) detail::rewrite<VlanTag>(frame, EthernetHeader::kSize, headers);
  if (view.is_v4)
    detail::rewrite<Ipv4Header>(frame, view.l3_offset, headers);
  else
    detail::rewrite<Ipv6Header>(frame, view.l3_offset, headers);
  detail::rewrite<UdpHeader>(frame, view.bth_offset - UdpHeader::kSize, headers);
  view.bth.write(headers.data() + view.bth_offset);
  detail::rewrite_extensions(view, headers);
  return headers;
}

}  // namespace roci::test
