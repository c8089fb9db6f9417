#include "stack/qp/unreliable_sender.h"

#include "stack/qp/address_handle.h"
#include "stack/qp/message_packet.h"
#include "stack/qp/qp.h"
#include "stack/qp/send_completion.h"

namespace roci {
namespace {

/// A Q_Key with this bit in a work request stands for the QP's own (IBTA 10.2.5): an unprivileged program sends no such
/// key of its own choice.
constexpr std::uint32_t kControlledQkey = 0x8000'0000;

}  // namespace

void UnreliableSender::start(Psn first_psn) {
  next_psn_ = first_psn;
  next_offset_ = 0;
  cursor_ = {};
}

bool UnreliableSender::can_send() const {
  if (qp_.sq().head() == qp_.sq().tail()) return false;
  // In SQD only a message that is under way goes on.
  return qp_.state() == QpState::kRts || (qp_.state() == QpState::kSqd && next_offset_ > 0);
}

const SendWqe& UnreliableSender::oldest() const { return qp_.sq().at(qp_.sq().head()); }

std::uint32_t UnreliableSender::next_packet(const Route& route, std::byte* frame) {
  while (can_send()) {
    const SendWqe& wqe = oldest();
    if (qp_.type() == QpType::kUc) return next_segment(wqe, route, frame);
    if (wqe.ah->route_to(wqe.remote_qpn, qp_.env().worker) != &route) return 0;
    if (wqe.length <= qp_.mtu()) return next_datagram(wqe, route, frame);
    // No packet, and no error either (IBTA C10-93.1.1).
    ++qp_.counters().ud_oversized_sends;
    complete_oldest(WcStatus::kSuccess);
  }
  return 0;
}

std::uint32_t UnreliableSender::next_segment(const SendWqe& wqe, const Route& route, std::byte* frame) {
  const PacketPlan plan = plan_message_packet(wqe, Transport::kUc, next_psn_, next_offset_, qp_.mtu());
  std::byte* out = write_extensions(wqe, plan, qp_.path().open(frame, route, plan));
  if (!write_payload(wqe, qp_.env().keys, qp_.pd(), cursor_, next_offset_, out, plan.payload_bytes)) {
    fail_oldest(WcStatus::kLocProtErr);
    return 0;
  }
  const std::uint32_t bytes = qp_.path().close(frame, route, plan);
  next_psn_ = next_psn_ + 1;
  next_offset_ += plan.payload_bytes;
  if (next_offset_ == wqe.length) complete_oldest(WcStatus::kSuccess);
  return bytes;
}

std::uint32_t UnreliableSender::next_datagram(const SendWqe& wqe, const Route& route, std::byte* frame) {
  const PacketPlan plan = plan_message_packet(wqe, Transport::kUd, next_psn_, 0, qp_.mtu());
  const Path& path = wqe.ah->path;
  std::byte* out = path.open_datagram(frame, route, plan, qp_.qpn(), wqe.remote_qpn);
  const bool is_controlled = (wqe.remote_qkey & kControlledQkey) != 0;
  Deth{.qkey = is_controlled ? qp_.attr().qkey : wqe.remote_qkey, .src_qpn = qp_.qpn()}.write(out);
  out = write_extensions(wqe, plan, out + Deth::kSize);
  if (!write_payload(wqe, qp_.env().keys, qp_.pd(), cursor_, 0, out, plan.payload_bytes)) {
    fail_oldest(WcStatus::kLocProtErr);
    return 0;
  }
  const std::uint32_t bytes = path.close(frame, route, plan);
  next_psn_ = next_psn_ + 1;
  complete_oldest(WcStatus::kSuccess);
  return bytes;
}

void UnreliableSender::complete_oldest(WcStatus status) {
  next_offset_ = 0;
  cursor_ = {};
  const SendWqe& wqe = oldest();
  if (wqe.ah != nullptr) wqe.ah->release();
  // Its slot may be written anew once the CQE is polled, not before.
  qp_.sq().pop();
  add_send_completion(qp_, wqe, status);
}

void UnreliableSender::fail_oldest(WcStatus status) {
  complete_oldest(status);
  qp_.enter_send_error();
}

void UnreliableSender::flush() {
  while (qp_.sq().head() != qp_.sq().tail()) complete_oldest(WcStatus::kWrFlushErr);
}

void UnreliableSender::forget() {
  start(Psn{});
  for (std::uint32_t i = qp_.sq().head(); i != qp_.sq().tail(); ++i)
    if (AddressHandle* ah = qp_.sq().at(i).ah; ah != nullptr) ah->release();
}

}  // namespace roci
