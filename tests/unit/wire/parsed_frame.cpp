#include "tests/unit/wire/parsed_frame.h"

namespace roci::test {
namespace {

template <class T>
void rewrite(std::span<const std::byte> from, std::size_t offset, std::vector<std::byte>& to) {
  T::read(from.data() + offset).write(to.data() + offset);
}

void rewrite_extensions(const PacketView& view, std::vector<std::byte>& to) {
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

}  // namespace

std::vector<std::byte> rewritten_headers(const PacketView& view, std::span<const std::byte> frame) {
  std::vector<std::byte> headers(view.payload_offset);
  if (view.l3_offset >= EthernetHeader::kSize) rewrite<EthernetHeader>(frame, 0, headers);
  if (view.has_vlan) rewrite<VlanTag>(frame, EthernetHeader::kSize, headers);
  if (view.is_v4)
    rewrite<Ipv4Header>(frame, view.l3_offset, headers);
  else
    rewrite<Ipv6Header>(frame, view.l3_offset, headers);
  rewrite<UdpHeader>(frame, view.bth_offset - UdpHeader::kSize, headers);
  view.bth.write(headers.data() + view.bth_offset);
  rewrite_extensions(view, headers);
  return headers;
}

}  // namespace roci::test
