// One direction of a port or link with faults: frames go in as they come, and leave now, twice, later, or never.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "drivers/faults/fault_injector.h"
#include "stack/base/types.h"

namespace roci {

/// Memory is taken at construction and bounded. Owner: as FaultInjector.
class FaultLine {
 public:
  static constexpr std::uint32_t kDefaultFrames = 1024;
  /// A frame held back for later ones leaves after this long even if none come.
  static constexpr Duration kReorderPatience = milliseconds(1);

  /// `to` is the caller's, of the frame's destination.
  struct Frame {
    std::span<std::byte> bytes;
    void* to = nullptr;
  };

  FaultLine(FaultInjector& injector, FaultDirection direction, std::uint32_t frames = kDefaultFrames);

  /// Frames that can be taken before the line is full; what is put beyond is lost, and counted.
  std::uint32_t room() const { return static_cast<std::uint32_t>(free_.size()); }

  /// Judges `frame`, which may be changed in place, and calls `emit(const Frame&)` for each frame that leaves now, in
  /// order. When emit returns false (no room further on), the frame is kept and leaves with release().
  template <class Emit>
  void put(const Frame& frame, Instant now, Emit emit);

  /// Emits the frames that are due. Stops when emit returns false. What was emitted stays valid until recycle().
  template <class Emit>
  void release(Instant now, Emit emit);
  void recycle();

  /// When release() has something to do; kNever if nothing is held.
  Instant next_deadline() const;
  /// Drops what is held for `to`, which is about to go.
  void forget(const void* to);
  std::uint64_t overflows() const { return overflows_; }

 private:
  struct Held {
    std::uint32_t buffer = 0;
    std::uint32_t size = 0;
    void* to = nullptr;
    Qpn flow;
    std::uint32_t later_packets = 0;  ///< of the flow, that still have to go first
    Instant due{};
    std::uint64_t order = 0;
  };

  void hold(const Frame& frame, Qpn flow, Instant due, std::uint32_t later_packets);
  /// A packet of `flow` has gone by: frames that waited for it become due.
  void count_passage(Qpn flow, Instant now);
  /// Index in held_ of the first frame due by `now`, or held_.size().
  std::size_t first_due(Instant now) const;
  std::span<std::byte> memory(const Held& held) const;
  void remove(std::size_t index);

  FaultInjector& injector_;
  const FaultDirection direction_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> lent_;
  std::vector<Held> held_;
  std::uint64_t order_ = 0;
  std::uint64_t overflows_ = 0;
};

template <class Emit>
void FaultLine::put(const Frame& frame, Instant now, Emit emit) {
  const FaultVerdict verdict = injector_.judge(frame.bytes, direction_, now);
  if (verdict.drop) return;
  if (verdict.changes_frame()) apply_changes(frame.bytes, verdict);
  const bool waits = verdict.delay > Duration{} || verdict.reorder_by > 0;
  const Instant due = now + verdict.delay + (verdict.reorder_by > 0 ? kReorderPatience : Duration{});
  for (std::uint32_t i = 0; i <= verdict.copies; ++i)
    if (waits || !emit(frame)) hold(frame, verdict.dest_qpn, due, verdict.reorder_by);
  if (waits) return;
  count_passage(verdict.dest_qpn, now);
  release(now, emit);
}

template <class Emit>
void FaultLine::release(Instant now, Emit emit) {
  for (std::size_t i = first_due(now); i < held_.size(); i = first_due(now)) {
    if (!emit(Frame{memory(held_[i]), held_[i].to})) return;
    lent_.push_back(held_[i].buffer);
    remove(i);
  }
}

}  // namespace roci
