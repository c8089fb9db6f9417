#include "tests/sim/recorded_port.h"

#include <algorithm>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

namespace roci::simtest {

bool parse_frame(std::span<const std::byte> frame, PacketView* view) {
  const std::span<const std::byte> header = frame.first(std::min(frame.size(), kHeaderCopyBytes));
  return parse_packet(header, static_cast<std::uint32_t>(frame.size()), view) == ParseStatus::kOk;
}

bool icrc_is_right(std::span<const std::byte> frame, const PacketView& view) {
  return compute_icrc(frame.data() + view.l3_offset, view.is_v4, view.icrc_offset - view.l3_offset) ==
         load_icrc(frame.data() + view.icrc_offset);
}

std::string describe_frame(std::span<const std::byte> frame) {
  PacketView view;
  if (!parse_frame(frame, &view)) return "not a packet";
  std::string out = "qp=" + std::to_string(view.bth.dest_qpn.value) + " " + std::string(view.info->name) +
                    " psn=" + std::to_string(view.bth.psn.value());
  if (view.payload_bytes > 0) out += " bytes=" + std::to_string(view.payload_bytes);
  if (view.info->has(Extension::kReth)) out += " dma=" + std::to_string(view.reth().dma_length);
  if (view.bth.ack_req) out += " ackreq";
  if (view.info->operation == Operation::kAcknowledge) {
    const Aeth aeth = view.aeth();
    const AethKind kind = aeth_kind(aeth.syndrome);
    if (kind == AethKind::kNak) out += " nak=" + std::to_string(aeth_value(aeth.syndrome));
    if (kind == AethKind::kRnrNak) out += " rnr=" + std::to_string(aeth_value(aeth.syndrome));
  }
  if (!icrc_is_right(frame, view)) out += " (wrong ICRC)";
  return out;
}

void RecordedPort::begin_turn(Instant now, TurnReason reason) {
  now_ = now;
  inner_->begin_turn(now, reason);
}

std::size_t RecordedPort::rx_burst(std::span<RxFrame> out) {
  const std::size_t count = inner_->rx_burst(out);
  for (const RxFrame& frame : out.first(count)) observer_.on_received(now_, host_, {frame.data, frame.size});
  return count;
}

std::size_t RecordedPort::tx_reserve(Route& route, std::span<TxSlot> out) {
  const std::size_t count = inner_->tx_reserve(route, out);
  reserved_.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void RecordedPort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  for (std::size_t i = 0; i < frame_bytes.size(); ++i)
    observer_.on_sent(now_, host_, {reserved_[i].data, frame_bytes[i]});
  inner_->tx_commit(route, frame_bytes);
}

}  // namespace roci::simtest
