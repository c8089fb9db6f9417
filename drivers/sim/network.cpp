#include "drivers/sim/network.h"

#include <algorithm>
#include <cstring>

#include "drivers/sim/sim_port.h"
#include "stack/base/assert.h"
#include "stack/engine/port.h"

namespace roci::sim {

SimLink::SimLink(Network& network, std::uint32_t to, const LinkConfig& config)
    : network_(network), to_(to), config_(config) {
  if (config.faults != nullptr) faults_ = std::make_unique<FaultLine>(*config.faults, FaultDirection::kTx);
}

Duration SimLink::time_on_wire(std::uint32_t frame_bytes) const {
  constexpr std::uint64_t kPicosecondsPerSecond = 1'000'000'000'000;
  if (config_.rate_bps == 0) return {};
  const std::uint64_t bits = (std::uint64_t{frame_bytes} + kEthernetOverheadBytes) * 8;
  return {static_cast<std::int64_t>(bits * kPicosecondsPerSecond / config_.rate_bps)};
}

std::uint32_t SimLink::room(Instant now) {
  while (!departures_.empty() && departures_.front() <= now) departures_.pop_front();
  const auto queued = static_cast<std::uint32_t>(departures_.size());
  return queued >= config_.queue_frames ? 0 : config_.queue_frames - queued;
}

void SimLink::send(PooledFrame frame, Instant now) {
  if (faults_ == nullptr) return transmit(frame, now);
  faults_->put({.bytes = {network_.memory(frame), frame.size}}, now,
               [this, now](const FaultLine::Frame& leaving) { return transmit_copy(leaving.bytes, now); });
  faults_->recycle();
  network_.free(frame);
  schedule_release(now);
}

void SimLink::transmit(PooledFrame frame, Instant now) {
  busy_until_ = std::max(busy_until_, now) + time_on_wire(frame.size);
  departures_.push_back(busy_until_);
  ++sent_frames_;
  sent_bytes_ += frame.size;
  network_.events().schedule(busy_until_ + config_.delay, *this, std::uint64_t{frame.index} << 32 | frame.size);
}

bool SimLink::transmit_copy(std::span<const std::byte> frame, Instant now) {
  PooledFrame copy = network_.allocate();
  copy.size = static_cast<std::uint32_t>(frame.size());
  std::memcpy(network_.memory(copy), frame.data(), frame.size());
  transmit(copy, now);
  return true;
}

void SimLink::schedule_release(Instant now) {
  const Instant due = std::max(faults_->next_deadline(), now);
  if (due >= release_at_) return;
  release_at_ = due;
  network_.events().schedule(due, *this, kReleaseFaults);
}

void SimLink::on_event(Instant now, std::uint64_t argument) {
  if (argument == kReleaseFaults) {
    release_at_ = kNever;
    faults_->release(now, [this, now](const FaultLine::Frame& due) { return transmit_copy(due.bytes, now); });
    faults_->recycle();
    return schedule_release(now);
  }
  const PooledFrame frame{.index = static_cast<std::uint32_t>(argument >> 32),
                          .size = static_cast<std::uint32_t>(argument)};
  network_.ports()[to_]->arrive(frame);
}

void Network::set_link(std::uint32_t from, std::uint32_t to, const LinkConfig& config) {
  std::unique_ptr<SimLink>& link = links_[{from, to}];
  ROCI_ASSERT(link == nullptr || link->sent_frames() == 0);
  link = std::make_unique<SimLink>(*this, to, config);
}

SimLink& Network::link(std::uint32_t from, std::uint32_t to) {
  std::unique_ptr<SimLink>& link = links_[{from, to}];
  if (link == nullptr) link = std::make_unique<SimLink>(*this, to, default_link_);
  return *link;
}

PooledFrame Network::allocate() {
  if (free_.empty()) {
    pool_.push_back(std::make_unique_for_overwrite<std::byte[]>(kMaxFrameBytes));
    free_.push_back(static_cast<std::uint32_t>(pool_.size() - 1));
  }
  const PooledFrame frame{.index = free_.back()};
  free_.pop_back();
  return frame;
}

}  // namespace roci::sim
