// The simulated segment: any host to any host, with no switch between; each directed pair is a link with a rate, a
// delay, a queue and, if wanted, faults.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "drivers/faults/fault_line.h"
#include "drivers/sim/event_queue.h"
#include "stack/base/types.h"

namespace roci::sim {

class Network;
class SimPort;

/// What a frame costs on the wire besides its bytes: preamble, FCS and the gap between packets (IEEE 802.3).
inline constexpr std::uint32_t kEthernetOverheadBytes = 24;

struct LinkConfig {
  std::uint64_t rate_bps = 100'000'000'000;
  Duration delay = microseconds(1);  ///< from the last bit sent to the frame's arrival
  std::uint32_t queue_frames = 64;   ///< handed over and not yet all sent; beyond that there is no room
  FaultInjector* faults = nullptr;   ///< judges frames as they enter, direction kTx; outlives the network
};

/// A frame on its way: an index into the network's pool.
struct PooledFrame {
  std::uint32_t index = 0;
  std::uint32_t size = 0;
};

/// One directed pair of hosts.
class SimLink : public EventTarget {
 public:
  SimLink(Network& network, std::uint32_t to, const LinkConfig& config);

  std::uint32_t room(Instant now);
  /// When room() grows next; only meaningful while there is none.
  Instant room_at() const { return departures_.empty() ? Instant{} : departures_.front(); }
  /// Takes the frame over.
  void send(PooledFrame frame, Instant now);
  void on_event(Instant now, std::uint64_t argument) override;

  std::uint64_t sent_frames() const { return sent_frames_; }
  std::uint64_t sent_bytes() const { return sent_bytes_; }

 private:
  static constexpr std::uint64_t kReleaseFaults = UINT64_MAX;

  void transmit(PooledFrame frame, Instant now);
  bool transmit_copy(std::span<const std::byte> frame, Instant now);
  void schedule_release(Instant now);
  Duration time_on_wire(std::uint32_t frame_bytes) const;

  Network& network_;
  const std::uint32_t to_;
  const LinkConfig config_;
  std::unique_ptr<FaultLine> faults_;
  std::deque<Instant> departures_;  ///< when the last bit of each queued frame leaves
  Instant busy_until_{};
  Instant release_at_ = kNever;
  std::uint64_t sent_frames_ = 0;
  std::uint64_t sent_bytes_ = 0;
};

/// One thread.
class Network {
 public:
  explicit Network(EventQueue& events) : events_(events) {}

  EventQueue& events() { return events_; }
  /// For links made from now on.
  void set_default_link(const LinkConfig& config) { default_link_ = config; }
  /// Before the first frame from `from` to `to`.
  void set_link(std::uint32_t from, std::uint32_t to, const LinkConfig& config);
  SimLink& link(std::uint32_t from, std::uint32_t to);

  void add_port(SimPort* port) { ports_.push_back(port); }
  std::span<SimPort* const> ports() const { return ports_; }

  PooledFrame allocate();
  void free(PooledFrame frame) { free_.push_back(frame.index); }
  std::byte* memory(PooledFrame frame) { return pool_[frame.index].get(); }
  /// Frames allocated and not given back.
  std::size_t frames_in_use() const { return pool_.size() - free_.size(); }

 private:
  EventQueue& events_;
  LinkConfig default_link_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::unique_ptr<SimLink>> links_;
  std::vector<SimPort*> ports_;
  std::vector<std::unique_ptr<std::byte[]>> pool_;
  std::vector<std::uint32_t> free_;
};

}  // namespace roci::sim
