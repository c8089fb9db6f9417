#include "tests/sim/wire_record.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "stack/wire/packet.h"

namespace roci::simtest {
namespace {

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
  if (!parse_frame(frame, &view) || view.info->is_response()) return;
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
  if (!parse_frame(frame, &view) || !view.info->is_response() || !icrc_is_right(frame, view)) return;
  const bool is_nak =
      view.info->operation == Operation::kAcknowledge && aeth_kind(view.aeth().syndrome) != AethKind::kAck;
  answers_[view.bth.dest_qpn].push_back({now, view.bth.psn, view.info->operation != Operation::kAcknowledge, is_nak});
}

bool WireRecord::Answer::answers(Psn request, bool needs_data) const {
  if (needs_data) return is_data && psn == request;
  return is_nak ? psn.after(request) : !psn.before(request);
}

std::vector<Instant> WireRecord::attempts_of(Qpn own, Psn oldest, Instant failed_at, std::uint32_t attempts,
                                             Duration timeout) const {
  const auto sent = requests_.find(own);
  if (sent == requests_.end()) return {};
  // A turn takes a while.
  const Duration least = timeout - Duration{timeout.ps / 8};
  std::vector<Instant> times;
  Instant until = failed_at;
  Instant first_wait = failed_at;
  bool needs_data = false;
  for (auto request = sent->second.rbegin(); request != sent->second.rend() && times.size() < attempts; ++request) {
    if (!request->covers(oldest)) continue;
    needs_data = request->needs_data;
    if (until - request->at < least) continue;
    // An earlier answer may have come out of order, when this was not yet the oldest request.
    first_wait = until - least;
    until = request->at;
    times.push_back(until);
  }
  if (times.size() < attempts) return {};
  if (const auto answered = answers_.find(own); answered != answers_.end())
    for (const Answer& answer : answered->second)
      if (answer.at > first_wait && answer.at < failed_at && answer.answers(oldest, needs_data)) return {};
  return times;
}

}  // namespace roci::simtest
