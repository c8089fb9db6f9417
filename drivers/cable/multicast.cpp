// Multicast: a frame to a group goes to every end that hears it, the sender's own too.
//
// Which groups an end hears is a filter of 64 bits, as in a NIC: an address chooses one bit, and an end that gets a
// frame of another group with the same bit finds nobody attached to it.
#include <algorithm>
#include <cstring>

#include "drivers/cable/cable.h"
#include "drivers/cable/peer.h"

namespace roci {
namespace {

/// An end that takes nothing for so long gets no more copies until it does: the others do not wait for it any longer.
constexpr Duration kGroupPatience = milliseconds(100);

std::uint32_t filter_bit(const IpAddress& group) {
  std::uint32_t hash = 0;
  for (const std::uint8_t byte : group.bytes) hash = (hash ^ byte) * 0x0100'0193u;
  return hash >> 26;
}

}  // namespace

void CablePort::join_group(const IpAddress& group) {
  const std::uint32_t bit = filter_bit(group);
  if (group_users_[bit]++ == 0) set_filter(file_->end(self_).groups.load() | std::uint64_t{1} << bit);
}

void CablePort::leave_group(const IpAddress& group) {
  const std::uint32_t bit = filter_bit(group);
  if (--group_users_[bit] == 0) set_filter(file_->end(self_).groups.load() & ~(std::uint64_t{1} << bit));
}

void CablePort::set_filter(std::uint64_t filter) {
  file_->end(self_).groups.store(filter, std::memory_order_release);
  file_->header().generation.fetch_add(1, std::memory_order_seq_cst);
}

std::uint64_t CablePort::find_members(const IpAddress& group) const {
  const std::uint64_t wanted = std::uint64_t{1} << filter_bit(group);
  std::uint64_t members = 0;
  for (std::uint32_t end = 0; end < cable::kMaxEnds; ++end) {
    const cable::EndRecord& record = file_->end(end);
    if (record.epoch.load(std::memory_order_acquire) == 0) continue;
    if ((record.groups.load(std::memory_order_acquire) & wanted) != 0) members |= std::uint64_t{1} << end;
  }
  return members;
}

/// Room in the rings of all members, so that none of them misses a frame; 0 is back-pressure.
std::size_t CablePort::reserve_for_group(CableRoute& route, std::span<TxSlot> out) {
  auto room = static_cast<std::uint32_t>(std::min<std::size_t>(out.size(), kSinkSlots));
  route.targets = 0;
  for (std::uint64_t left = route.members; left != 0; left &= left - 1) {
    const auto end = static_cast<std::uint32_t>(__builtin_ctzll(left));
    Peer& peer = (*peers_)[end];
    if (!peer.producer.attached() && !attach_outgoing(end)) continue;
    if (peer.is_dead || peer.producer.broken()) continue;
    const std::uint32_t of_peer = peer.producer.room(room);
    if (of_peer == 0) {
      if (peer.full_since == kNever) peer.full_since = now_;
      if (now_ - peer.full_since >= kGroupPatience) continue;
      ++counters_->cable_tx_ring_full;
      return 0;
    }
    peer.full_since = kNever;
    room = std::min(room, of_peer);
    route.targets |= std::uint64_t{1} << end;
  }
  for (std::uint32_t i = 0; i < room; ++i) out[i].data = sink_.get() + i * cable::kSlotBytes;
  return room;
}

void CablePort::commit_to_group(const CableRoute& route, std::span<const std::uint32_t> frame_bytes) {
  const auto missed = static_cast<std::uint64_t>(__builtin_popcountll(route.members & ~route.targets));
  counters_->cable_tx_group_drops += missed * frame_bytes.size();
  for (std::uint64_t left = route.targets; left != 0; left &= left - 1) {
    const auto end = static_cast<std::uint32_t>(__builtin_ctzll(left));
    Peer& peer = (*peers_)[end];
    for (std::size_t i = 0; i < frame_bytes.size(); ++i) {
      std::memcpy(peer.producer.frame(0), sink_.get() + i * cable::kSlotBytes, frame_bytes[i]);
      peer.producer.publish(frame_bytes[i]);
    }
    counters_->cable_tx_frames += frame_bytes.size();
    note_unconsumed(end);
  }
}

}  // namespace roci
