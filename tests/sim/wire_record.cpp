#include "tests/sim/wire_record.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "stack/wire/icrc.h"

namespace roci::simtest {
namespace {

bool parse(std::span<const std::byte> frame, PacketView* view) {
  const std::span<const std::byte> header = frame.first(std::min(frame.size(), kHeaderCopyBytes));
  return parse_packet(header, static_cast<std::uint32_t>(frame.size()), view) == ParseStatus::kOk;
}

bool icrc_is_right(std::span<const std::byte> frame, const PacketView& view) {
  return compute_icrc(frame.data() + view.l3_offset, view.is_v4, view.icrc_offset - view.l3_offset) ==
         load_icrc(frame.data() + view.icrc_offset);
}

/// FNV-1a over words of eight bytes.
std::uint64_t mix(std::uint64_t digest, std::uint64_t word) { return (digest ^ word) * 0x100'0000'01b3; }

std::uint64_t mix(std::uint64_t digest, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    std::uint64_t word = 0;
    const std::size_t n = std::min(bytes.size(), sizeof word);
    std::memcpy(&word, bytes.data(), n);
    digest = mix(digest, word);
    bytes = bytes.subspan(n);
  }
  return digest;
}

}  // namespace

std::string describe_frame(std::span<const std::byte> frame) {
  PacketView view;
  if (!parse(frame, &view)) return "not a packet";
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

void WireRecord::print(char mark, Instant now, std::uint32_t host, std::span<const std::byte> frame) const {
  if (!trace_) return;
  std::fprintf(stderr, "# %12.3fus host %" PRIu32 " %c %s\n", static_cast<double>(now.ps) / 1e6, host, mark,
               describe_frame(frame).c_str());
}

void WireRecord::on_sent(Instant now, std::uint32_t host, std::span<const std::byte> frame) {
  print('>', now, host, frame);
  ++frames_;
  digest_ = mix(mix(mix(digest_, static_cast<std::uint64_t>(now.ps)), host), frame);
  PacketView view;
  if (!parse(frame, &view) || view.info->is_response()) return;
  const auto requester = requester_of_.find(view.bth.dest_qpn);
  if (requester == requester_of_.end()) return;
  const bool is_read = view.info->operation == Operation::kRdmaReadRequest;
  const std::uint32_t more_packets =
      is_read && view.reth().dma_length > 0 ? (view.reth().dma_length - 1) / requester->second.mtu : 0;
  requests_[requester->second.qpn].push_back(
      {now, view.bth.psn, view.bth.psn + more_packets, !view.info->may_carry_payload()});
}

void WireRecord::on_received(Instant now, std::uint32_t host, std::span<const std::byte> frame) {
  print('<', now, host, frame);
  PacketView view;
  if (!parse(frame, &view) || !view.info->is_response() || !icrc_is_right(frame, view)) return;
  const bool is_nak =
      view.info->operation == Operation::kAcknowledge && aeth_kind(view.aeth().syndrome) != AethKind::kAck;
  answers_[view.bth.dest_qpn].push_back({now, view.bth.psn, view.info->operation != Operation::kAcknowledge, is_nak});
}

bool WireRecord::Answer::answers(Psn request, bool needs_data) const {
  if (needs_data) return is_data && psn == request;
  return is_nak ? psn.after(request) : !psn.before(request);
}

bool WireRecord::was_exhausted(Qpn own, Psn oldest, Instant failed_at, std::uint32_t attempts, Duration timeout) const {
  const auto sent = requests_.find(own);
  if (sent == requests_.end()) return false;
  // A turn takes a while.
  const Duration least = timeout - Duration{timeout.ps / 8};
  Instant until = failed_at;
  Instant first_wait = failed_at;
  bool needs_data = false;
  std::uint32_t rounds = 0;
  for (auto request = sent->second.rbegin(); request != sent->second.rend() && rounds < attempts; ++request) {
    if (!request->covers(oldest)) continue;
    needs_data = request->needs_data;
    if (until - request->at < least) continue;
    ++rounds;
    // An earlier answer may have come out of order, when this was not yet the oldest request.
    first_wait = until - least;
    until = request->at;
  }
  if (rounds < attempts) return false;
  const auto answered = answers_.find(own);
  if (answered == answers_.end()) return true;
  return std::none_of(answered->second.begin(), answered->second.end(), [&](const Answer& answer) {
    return answer.at > first_wait && answer.at < failed_at && answer.answers(oldest, needs_data);
  });
}

void RecordedPort::begin_turn(Instant now, TurnReason reason) {
  now_ = now;
  inner_->begin_turn(now, reason);
}

std::size_t RecordedPort::rx_burst(std::span<RxFrame> out) {
  const std::size_t count = inner_->rx_burst(out);
  for (const RxFrame& frame : out.first(count)) record_.on_received(now_, host_, {frame.data, frame.size});
  return count;
}

std::size_t RecordedPort::tx_reserve(Route& route, std::span<TxSlot> out) {
  const std::size_t count = inner_->tx_reserve(route, out);
  reserved_.assign(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(count));
  return count;
}

void RecordedPort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  for (std::size_t i = 0; i < frame_bytes.size(); ++i)
    record_.on_sent(now_, host_, {reserved_[i].data, frame_bytes[i]});
  inner_->tx_commit(route, frame_bytes);
}

}  // namespace roci::simtest
