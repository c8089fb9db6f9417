// The shared file of a cable: a header, a directory of ends, a page of counters for each, and the rings between them.
//
// The file is sparse: of the 64 x 64 rings only those in use have memory. Everything in it can be written by any
// process on the cable, so what is read from it is range-checked, and sizes and masks are constants of the program.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "stack/engine/port.h"
#include "stack/wire/address.h"

namespace roci::cable {

inline constexpr std::uint64_t kMagic = 0x726f'6369'6361'626c;  // "rocicabl"
inline constexpr std::uint32_t kLayoutVersion = 3;
inline constexpr std::uint32_t kMaxEnds = 64;
inline constexpr std::uint32_t kMaxAddresses = 8;
inline constexpr std::size_t kPageBytes = 4096;

/// Frame slots of a ring. 17 x 256 bytes: slots do not alias at 4 KiB.
inline constexpr std::uint32_t kSlots = 256;
inline constexpr std::size_t kSlotBytes = 4352;
/// Where the frame starts in its slot: so that the payload behind 54 bytes of headers begins a cache line.
inline constexpr std::size_t kFrameOffset = 10;

static_assert((kSlots & (kSlots - 1)) == 0);
static_assert(kFrameOffset + kMaxFrameBytes <= kSlotBytes);
static_assert((kFrameOffset + 54) % 64 == 0 && kSlotBytes % 64 == 0);

/// Written under the join lock, but for `generation`, which all ends read.
struct FileHeader {
  std::uint64_t magic;
  std::uint32_t layout_version;
  std::uint32_t slot_bytes;
  std::uint32_t slots;
  std::uint32_t next_epoch;                           ///< of the next end that joins; never 0
  alignas(64) std::atomic<std::uint64_t> generation;  ///< counts joins and leaves
};
static_assert(sizeof(FileHeader) <= kPageBytes);

/// One end of the cable. An end is alive while its process holds the lock on its byte of the file.
struct EndRecord {
  // Written by the owner under the join lock.
  std::atomic<std::uint32_t> epoch;  ///< of the end that has this place, 0 when free
  std::int32_t pid;
  std::uint32_t address_count;
  std::uint32_t is_follower;  ///< not 0: another end of the same process has QP1 of both
  MacAddress mac;
  std::array<IpAddress, kMaxAddresses> addresses;
  std::array<char, 64> host;
  std::array<char, 32> device_name;
  std::array<char, 32> program;

  // The doorbell: the owner's background thread sleeps on it.
  alignas(64) std::atomic<std::uint32_t> bell;
  std::atomic<std::uint32_t> asleep;  ///< nobody turns this worker: each frame must ring

  /// The multicast groups that the end hears: each sets one bit. Owner writes, and then moves `generation` on.
  std::atomic<std::uint64_t> groups;

  // The heartbeat. Owner writes.
  alignas(64) std::atomic<std::int64_t> heartbeat_ps;  ///< CLOCK_MONOTONIC of the last turn that promised another
  std::atomic<std::uint32_t> turn_count;               ///< odd during a turn

  // A bit for each end that has made a ring towards this one. Producers set, owner clears.
  alignas(64) std::atomic<std::uint64_t> incoming;
};
static_assert(sizeof(EndRecord) <= 512);
inline constexpr std::size_t kEndRecordBytes = 512;

/// The first half of an end's counters is the stack's, the second the cable's.
inline constexpr std::size_t kCounterRegionBytes = 16384;
inline constexpr std::size_t kCableCountersWord = kCounterRegionBytes / sizeof(std::uint64_t) / 2;

/// A directed ring, from one producer to one consumer. rte_ring was considered: it keeps size and mask in the shared
/// memory, where the peer could change them, and publishes by index, which costs a second cache miss per frame.
struct RingHeader {
  std::atomic<std::uint32_t> producer_epoch;
  std::atomic<std::uint32_t> consumer_epoch;
  std::atomic<std::uint32_t> first_sequence;
  alignas(64) std::atomic<std::uint32_t> consumed;  ///< frames taken so far; consumer writes
};

/// `sequence` is first_sequence + n when the slot holds the n-th frame of the ring; written last.
struct SlotHeader {
  std::atomic<std::uint32_t> sequence;
  std::uint32_t frame_bytes;
};
static_assert(sizeof(SlotHeader) <= kFrameOffset);

inline constexpr std::size_t kRingBytes = kPageBytes + kSlots * kSlotBytes;
static_assert(kRingBytes % kPageBytes == 0);

inline constexpr std::size_t kDirectoryOffset = kPageBytes;
inline constexpr std::size_t kCountersOffset = kDirectoryOffset + kMaxEnds * kEndRecordBytes;
inline constexpr std::size_t kRingsOffset = kCountersOffset + kMaxEnds * kCounterRegionBytes;
inline constexpr std::size_t kFileBytes = kRingsOffset + std::size_t{kMaxEnds} * kMaxEnds * kRingBytes;
static_assert(kCountersOffset % kPageBytes == 0 && kRingsOffset % kPageBytes == 0);

constexpr std::size_t ring_offset(std::uint32_t producer, std::uint32_t consumer) {
  return kRingsOffset + (std::size_t{producer} * kMaxEnds + consumer) * kRingBytes;
}

/// Bytes of the file that are locks: one an end, and one for joining and leaving.
inline constexpr std::uint32_t kJoinLockByte = kMaxEnds;

}  // namespace roci::cable
