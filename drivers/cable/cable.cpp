#include "drivers/cable/cable.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <utility>

#include "drivers/cable/peer.h"
#include "stack/base/assert.h"
#include "stack/wire/headers_l3.h"
#include "stack/wire/mad.h"

namespace roci {
namespace {

using cable::EndRecord;
using cable::kMaxEnds;

constexpr std::uint32_t kQpnBlockShift = 18;
/// A frame may wait this long for a peer that is busy before its bell is rung.
constexpr Duration kPatience = microseconds(2);
/// A peer whose last turn is older than this when it is sent a frame is not about to look.
constexpr Duration kStaleHeartbeat = microseconds(5);
/// A turn is bounded: a peer that is in one for longer has been stopped or descheduled.
constexpr Duration kLongTurn = milliseconds(1);
constexpr Duration kLivenessPeriod = milliseconds(20);

std::uint64_t bit(std::uint32_t index) { return std::uint64_t{1} << index; }

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, 1, nullptr, nullptr, 0);
}

}  // namespace

std::span<std::uint64_t> CablePort::counter_region() { return {file_->counters(self_), cable::kCableCountersWord}; }

PortAttributes CablePort::attributes() const {
  constexpr std::uint32_t kLinkMtuBytes = kMaxFrameBytes - 18;
  return {.mac = mac_,
          .addresses = addresses_,
          .link_mtu_bytes = kLinkMtuBytes,
          .speed_bps = speed_bps_,
          .qpn_block = self_,
          .link_up = true};
}

int CablePort::find_end(const IpAddress& address, Qpn qpn) const {
  const bool is_gsi = (qpn.value & ((1u << kQpnBlockShift) - 1)) == kGsiQpn;
  const auto has_address = [&](std::uint32_t end) {
    const EndRecord& record = file_->end(end);
    if (record.epoch.load(std::memory_order_acquire) == 0) return false;
    if (is_gsi && record.is_follower != 0) return false;
    const std::uint32_t count = std::min(record.address_count, cable::kMaxAddresses);
    return std::find(record.addresses.begin(), record.addresses.begin() + count, address) !=
           record.addresses.begin() + count;
  };
  // Processes of one host have its addresses in common; the QPN tells them apart.
  const std::uint32_t block = qpn.value >> kQpnBlockShift;
  if (block < kMaxEnds && has_address(block)) return static_cast<int>(block);
  for (std::uint32_t end = 0; end < kMaxEnds; ++end)
    if (has_address(end)) return static_cast<int>(end);
  return -1;
}

void CablePort::bind(CableRoute& route) {
  const bool is_group = route.destination.is_multicast();
  route.end = is_group ? -1 : find_end(route.destination, route.dest_qpn);
  route.members = is_group ? find_members(route.destination) : 0;
  EthernetHeader l2{.source = mac_, .ether_type = route.destination.is_v4() ? kEtherTypeIpv4 : kEtherTypeIpv6};
  if (route.end >= 0) l2.destination = file_->end(static_cast<std::uint32_t>(route.end)).mac;
  if (is_group) l2.destination = multicast_mac(route.destination);
  l2.write(route.l2.data());
}

Route* CablePort::acquire_route(const IpAddress& destination, Qpn dest_qpn) {
  auto route = std::make_unique<CableRoute>();
  route->destination = destination;
  route->dest_qpn = dest_qpn;
  bind(*route);
  routes_.push_back(std::move(route));
  return routes_.back().get();
}

void CablePort::release_route(Route* route) {
  std::erase_if(routes_, [route](const auto& held) { return held.get() == route; });
}

void CablePort::begin_turn(Instant now, TurnReason reason) {
  now_ = now;
  EndRecord& self = file_->end(self_);
  self.turn_count.store(self.turn_count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  // One that posts does not promise to come back: its turn is no heartbeat.
  if (reason != TurnReason::kPost) self.heartbeat_ps.store(now.ps, std::memory_order_relaxed);
  const std::uint64_t generation = file_->header().generation.load(std::memory_order_acquire);
  if (generation != seen_generation_) [[unlikely]] {
    seen_generation_ = generation;
    notice_changes();
  }
  if (self.incoming.load(std::memory_order_acquire) != 0) [[unlikely]]
    attach_incoming();
  if (closing_ != 0) [[unlikely]]
    detach_drained();
}

void CablePort::end_turn(Instant now) {
  EndRecord& self = file_->end(self_);
  const std::uint32_t turn = self.turn_count.load(std::memory_order_relaxed) + 1;
  if (unconsumed_ == 0) {
    self.turn_count.store(turn, std::memory_order_release);
    return;
  }
  // The exchange orders what was published before the look at who sleeps; prepare_wait() has its counterpart.
  self.turn_count.exchange(turn, std::memory_order_seq_cst);
  check_waiting_peers(now);
}

/// Ends that have joined, left or been replaced since the last turn.
void CablePort::notice_changes() {
  for (std::uint32_t end = 0; end < kMaxEnds; ++end) {
    Peer& peer = (*peers_)[end];
    if (peer.epoch == 0 || peer.epoch == file_->end(end).epoch.load(std::memory_order_acquire)) continue;
    close_peer(end);
    ++counters_->cable_peers_lost;
  }
  for (const auto& route : routes_) bind(*route);
}

void CablePort::attach_incoming() {
  std::uint64_t made = file_->end(self_).incoming.exchange(0, std::memory_order_acq_rel);
  for (; made != 0; made &= made - 1) {
    const auto end = static_cast<std::uint32_t>(__builtin_ctzll(made));
    Peer& peer = (*peers_)[end];
    if (peer.consumer.attached()) detach_consumer(end);
    std::byte* ring = file_->map_ring(end, self_, false);
    if (ring == nullptr) {
      ++counters_->cable_no_memory;
      continue;
    }
    const auto& header = cable::ring_header(ring);
    const std::uint32_t epoch = header.producer_epoch.load(std::memory_order_acquire);
    if (epoch == 0 || header.consumer_epoch.load(std::memory_order_relaxed) != epoch_) {
      cable::SharedFile::unmap_ring(ring);
      continue;
    }
    // An end may have come, sent and left since the last turn: what it sent still counts.
    if (epoch == file_->end(end).epoch.load(std::memory_order_acquire))
      peer.epoch = epoch;
    else
      closing_ |= bit(end);
    peer.consumer.attach(ring);
    senders_.push_back(end);
    ++counters_->cable_peers_attached;
  }
}

bool CablePort::attach_outgoing(std::uint32_t end) {
  EndRecord& record = file_->end(end);
  const std::uint32_t epoch = record.epoch.load(std::memory_order_acquire);
  if (epoch == 0) return false;
  file_->discard_ring(self_, end);
  std::byte* ring = file_->map_ring(self_, end, true);
  if (ring == nullptr) {
    ++counters_->cable_no_memory;
    return false;
  }
  Peer& peer = (*peers_)[end];
  peer.epoch = epoch;
  peer.is_dead = false;
  // A peer that still reads an older ring in this place must not take a new frame for the one it waits for.
  const std::uint32_t first_sequence = 1 + ((epoch_ * 0x9e37'79b9u) ^ (epoch * 0x85eb'ca6bu)) / 2;
  peer.producer.attach(ring, epoch_, epoch, first_sequence);
  record.incoming.fetch_or(bit(self_), std::memory_order_seq_cst);
  return true;
}

/// The end is gone: nothing more is sent to it, but what it sent before is still taken.
void CablePort::close_peer(std::uint32_t end) {
  Peer& peer = (*peers_)[end];
  if (peer.producer.attached()) {
    cable::SharedFile::unmap_ring(peer.producer.memory());
    file_->discard_ring(self_, end);
  }
  const cable::Consumer consumer = peer.consumer;
  peer = Peer{.epoch = peer.epoch, .producer = {}, .consumer = consumer};
  unconsumed_ &= ~bit(end);
  if (consumer.attached()) closing_ |= bit(end);
}

void CablePort::detach_consumer(std::uint32_t end) {
  Peer& peer = (*peers_)[end];
  cable::SharedFile::unmap_ring(peer.consumer.memory());
  peer.consumer.detach();
  std::erase(senders_, end);
  closing_ &= ~bit(end);
}

/// Lets go of rings whose sender is gone and from which everything has been taken.
void CablePort::detach_drained() {
  for (std::uint64_t left = closing_; left != 0; left &= left - 1) {
    const auto end = static_cast<std::uint32_t>(__builtin_ctzll(left));
    if ((*peers_)[end].consumer.empty()) detach_consumer(end);
  }
}

std::size_t CablePort::rx_burst(std::span<RxFrame> out) {
  std::size_t count = 0;
  for (std::size_t looked = 0; looked < senders_.size() && count < out.size(); ++looked) {
    if (++next_sender_ >= senders_.size()) next_sender_ = 0;
    const std::uint32_t end = senders_[next_sender_];
    Peer& peer = (*peers_)[end];
    const std::size_t before = count;
    while (count < out.size() && !peer.is_dead && peer.consumer.take(&out[count])) {
      if (out[count].size == 0) [[unlikely]] {
        ++counters_->cable_rx_bad_slot;
        peer.is_dead = true;
        break;
      }
      ++count;
    }
    if (count != before) burst_senders_ |= bit(end);
  }
  counters_->cable_rx_frames += count;
  return count;
}

void CablePort::rx_release() {
  for (; burst_senders_ != 0; burst_senders_ &= burst_senders_ - 1)
    (*peers_)[static_cast<std::uint32_t>(__builtin_ctzll(burst_senders_))].consumer.release();
}

std::size_t CablePort::tx_reserve(Route& route, std::span<TxSlot> out) {
  auto& ours = static_cast<CableRoute&>(route);
  const int end = ours.end;
  if (end < 0 && ours.members != 0) [[unlikely]]
    return reserve_for_group(ours, out);
  Peer* peer = end < 0 ? nullptr : &(*peers_)[static_cast<std::uint32_t>(end)];
  if (peer != nullptr && !peer->producer.attached() && !attach_outgoing(static_cast<std::uint32_t>(end)))
    peer = nullptr;
  reserved_sink_ = peer == nullptr || peer->is_dead || peer->producer.broken();
  if (reserved_sink_) {
    const std::size_t count = std::min<std::size_t>(out.size(), kSinkSlots);
    for (std::size_t i = 0; i < count; ++i) out[i].data = sink_.get() + i * cable::kSlotBytes;
    return count;
  }
  const std::uint32_t room = peer->producer.room(static_cast<std::uint32_t>(out.size()));
  if (room == 0) ++counters_->cable_tx_ring_full;
  for (std::uint32_t i = 0; i < room; ++i) out[i].data = peer->producer.frame(i);
  return room;
}

void CablePort::tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) {
  if (frame_bytes.empty()) return;
  if (static_cast<CableRoute&>(route).members != 0) [[unlikely]]
    return commit_to_group(static_cast<CableRoute&>(route), frame_bytes);
  if (reserved_sink_) {
    counters_->cable_tx_no_peer_drops += frame_bytes.size();
    return;
  }
  const auto end = static_cast<std::uint32_t>(static_cast<CableRoute&>(route).end);
  Peer& peer = (*peers_)[end];
  for (const std::uint32_t bytes : frame_bytes) {
    ROCI_DEBUG_ASSERT(bytes <= kMaxFrameBytes);
    peer.producer.publish(bytes);
  }
  counters_->cable_tx_frames += frame_bytes.size();
  note_unconsumed(end);
}

void CablePort::note_unconsumed(std::uint32_t end) {
  unconsumed_ |= bit(end);
  Peer& peer = (*peers_)[end];
  if (peer.unconsumed_since == kNever) peer.unconsumed_since = now_;
  // A sleeper gets up while the rest of the turn's frames are made.
  if (file_->end(end).asleep.load(std::memory_order_relaxed) != 0) [[unlikely]]
    check_waiting_peer(end, now_);
}

void CablePort::check_waiting_peers(Instant now) {
  for (std::uint64_t left = unconsumed_; left != 0; left &= left - 1)
    check_waiting_peer(static_cast<std::uint32_t>(__builtin_ctzll(left)), now);
}

/// Wakes a peer that will not look by itself. One in a turn, or with a fresh heartbeat, is left alone.
void CablePort::check_waiting_peer(std::uint32_t end, Instant now) {
  Peer& peer = (*peers_)[end];
  EndRecord& record = file_->end(end);
  const Duration waited = now - peer.unconsumed_since;
  const bool is_asleep = record.asleep.load(std::memory_order_seq_cst) != 0;
  const Duration heartbeat_age = now - Instant{record.heartbeat_ps.load(std::memory_order_relaxed)};
  // The peer's progress is on a cache line that it writes: it is looked at only when the answer matters.
  if (waited < kPatience && !is_asleep && heartbeat_age < kStaleHeartbeat) return;
  if (peer.producer.all_consumed()) {
    unconsumed_ &= ~bit(end);
    peer.unconsumed_since = kNever;
    return;
  }
  if (peer.producer.broken()) [[unlikely]] {
    ++counters_->cable_tx_bad_peer;
    unconsumed_ &= ~bit(end);
    return;
  }
  const std::uint32_t turn = record.turn_count.load(std::memory_order_acquire);
  const bool in_turn = turn % 2 != 0 && waited < kLongTurn;
  if (!is_asleep && (in_turn || heartbeat_age < kPatience)) return;
  if (turn == peer.rung_at_turn && waited < kLongTurn) return;
  if (!peer_is_alive(end, now)) {
    close_peer(end);
    peer.is_dead = true;
    return;
  }
  peer.rung_at_turn = turn;
  peer.unconsumed_since = now;
  ring_bell(end);
}

void CablePort::ring_bell(std::uint32_t end) {
  EndRecord& record = file_->end(end);
  record.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(record.bell);
  ++counters_->cable_doorbells;
}

bool CablePort::peer_is_alive(std::uint32_t end, Instant now) {
  Peer& peer = (*peers_)[end];
  if (end == self_) return true;
  if (now - peer.liveness_checked < kLivenessPeriod) return !peer.is_dead;
  peer.liveness_checked = now;
  const bool same = file_->end(end).epoch.load(std::memory_order_acquire) == peer.epoch;
  const bool alive = same && file_->end_is_alive(end);
  if (!alive) ++counters_->cable_peers_lost;
  return alive;
}

bool CablePort::peer_stalled(const Route& route) {
  const int index = static_cast<const CableRoute&>(route).end;
  if (index < 0) return false;
  const auto end = static_cast<std::uint32_t>(index);
  Peer& peer = (*peers_)[end];
  if (!peer.producer.attached() || peer.is_dead || peer.producer.broken()) return false;
  if (!peer_is_alive(end, now_)) return false;
  if (!peer.producer.all_consumed()) return true;
  const std::uint32_t turn = file_->end(end).turn_count.load(std::memory_order_acquire);
  return std::exchange(peer.stalled_turn, turn) == turn && turn % 2 != 0;
}

std::uint64_t CablePort::incarnation(const IpAddress& destination, Qpn dest_qpn) {
  const int found = find_end(destination, dest_qpn);
  if (found < 0) return 0;
  const auto end = static_cast<std::uint32_t>(found);
  const std::uint32_t epoch = file_->end(end).epoch.load(std::memory_order_acquire);
  return end == self_ || file_->end_is_alive(end) ? epoch : 0;
}

std::optional<std::uint32_t> CablePort::next_of_host() {
  for (std::uint32_t end = self_ + 1; end < kMaxEnds; ++end) {
    const EndRecord& record = file_->end(end);
    const bool is_there = record.epoch.load(std::memory_order_acquire) != 0;
    if (is_there && record.mac == mac_ && record.is_follower == 0) return end;
  }
  return std::nullopt;
}

void CablePort::prepare_wait(bool deep) {
  EndRecord& self = file_->end(self_);
  bell_before_wait_ = self.bell.load(std::memory_order_seq_cst);
  self.asleep.exchange(deep ? 1 : 0, std::memory_order_seq_cst);
}

bool CablePort::wait(Duration at_most) {
  EndRecord& self = file_->end(self_);
  const std::int64_t ns = std::max<std::int64_t>(at_most.ns(), 1);
  const timespec timeout{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&self.bell), FUTEX_WAIT, bell_before_wait_, &timeout, nullptr, 0);
  cancel_wait();
  return self.bell.load(std::memory_order_seq_cst) != bell_before_wait_;
}

void CablePort::cancel_wait() { file_->end(self_).asleep.store(0, std::memory_order_seq_cst); }

void CablePort::wake() {
  EndRecord& self = file_->end(self_);
  self.bell.fetch_add(1, std::memory_order_seq_cst);
  futex_wake(self.bell);
}

}  // namespace roci
