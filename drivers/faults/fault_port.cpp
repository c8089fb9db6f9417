#include "drivers/faults/fault_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace roci {

FaultPort::FaultPort(std::unique_ptr<Port> inner, FaultScript script, std::uint32_t frames, std::size_t log_records)
    : PortDecorator(std::move(inner)),
      injector_(std::move(script), log_records),
      tx_(injector_, FaultDirection::kTx, frames),
      rx_(injector_, FaultDirection::kRx, frames),
      slots_(std::make_unique_for_overwrite<std::byte[]>(2 * kSlots * kMaxFrameBytes)) {}

void FaultPort::release_route(Route* route) {
  tx_.forget(route);
  inner_->release_route(route);
}

void FaultPort::begin_turn(Instant now, TurnReason reason) {
  now_ = now;
  inner_->begin_turn(now, reason);
  release_tx();
}

void FaultPort::end_turn(Instant now) {
  now_ = now;
  release_tx();
  inner_->end_turn(now);
}

bool FaultPort::send_now(const FaultLine::Frame& frame) {
  Route& route = *static_cast<Route*>(frame.to);
  TxSlot room;
  if (inner_->tx_reserve(route, {&room, 1}) == 0) return false;
  std::memcpy(room.data, frame.bytes.data(), frame.bytes.size());
  const auto size = static_cast<std::uint32_t>(frame.bytes.size());
  inner_->tx_commit(route, {&size, 1});
  return true;
}

void FaultPort::release_tx() {
  tx_.release(now_, [this](const FaultLine::Frame& frame) { return send_now(frame); });
  tx_.recycle();
}

std::size_t FaultPort::tx_reserve(Route& route, std::span<TxSlot> out) {
  // What is due goes first. If it finds no room, neither does anything behind it.
  release_tx();
  if (tx_.next_deadline() <= now_) return 0;
  const std::size_t wanted = std::min({out.size(), kSlots, std::size_t{tx_.room()}});
  const std::size_t count = inner_->tx_reserve(route, out.first(wanted));
  if (count > 0) inner_->tx_commit(route, {});
  for (std::size_t i = 0; i < count; ++i) out[i].data = slot(i);
  return count;
}

void FaultPort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  for (std::size_t i = 0; i < frame_bytes.size(); ++i) {
    const FaultLine::Frame frame{.bytes = {slot(i), frame_bytes[i]}, .to = &route};
    tx_.put(frame, now_, [this](const FaultLine::Frame& leaving) { return send_now(leaving); });
    tx_.recycle();
  }
}

std::size_t FaultPort::rx_burst(std::span<RxFrame> out) {
  std::size_t count = 0;
  const auto deliver = [&](const FaultLine::Frame& frame) {
    if (count == out.size()) return false;
    out[count++] = {.data = frame.bytes.data(), .size = static_cast<std::uint32_t>(frame.bytes.size())};
    return true;
  };
  rx_.release(now_, deliver);
  std::size_t copied = 0;
  while (count < out.size()) {
    std::array<RxFrame, kSlots> frames;
    const std::size_t wanted = std::min({out.size() - count, kSlots - copied, std::size_t{rx_.room()}});
    const std::size_t received = inner_->rx_burst({frames.data(), wanted});
    for (std::size_t i = 0; i < received; ++i) {
      const std::uint32_t size = std::min(frames[i].size, kMaxFrameBytes);
      std::byte* copy = slot(kSlots + copied++);
      std::memcpy(copy, frames[i].data, size);
      rx_.put({.bytes = {copy, size}}, now_, deliver);
    }
    inner_->rx_release();
    if (received == 0) break;
  }
  return count;
}

void FaultPort::rx_release() { rx_.recycle(); }

Instant FaultPort::next_deadline() const {
  // A frame that is due and still here waits for room.
  const Instant tx = tx_.next_deadline();
  const Instant own = std::min(tx <= now_ ? now_ + kRoomRetry : tx, rx_.next_deadline());
  return std::min(own, inner_->next_deadline());
}

}  // namespace roci
