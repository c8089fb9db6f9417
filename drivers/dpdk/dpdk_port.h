// An ethdev port as the stack's link: bursts of mbufs in, bursts of mbufs out.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "drivers/dpdk/dpdk_link.h"
#include "drivers/dpdk/ethdev.h"
#include "drivers/dpdk/surroundings.h"
#include "stack/engine/port.h"

namespace roci::dpdk {

/// Frames that wait for the device or for this process itself; a power of two.
class FrameQueue {
 public:
  static constexpr std::uint32_t kFrames = 512;

  std::uint32_t size() const { return tail_ - head_; }
  std::uint32_t room() const { return kFrames - size(); }
  void push(rte_mbuf* frame) { frames_[tail_++ % kFrames] = frame; }
  rte_mbuf* front() const { return frames_[head_ % kFrames]; }
  void pop(std::uint32_t count = 1) { head_ += count; }
  /// The oldest frames, as far as they lie in a row.
  std::span<rte_mbuf*> row() {
    const std::uint32_t first = head_ % kFrames;
    return {&frames_[first], std::min(size(), kFrames - first)};
  }

 private:
  std::array<rte_mbuf*, kFrames> frames_{};
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
};

/// Owner: as Port.
class DpdkPort : public Port {
 public:
  /// Null with errno and `*error` on failure. `*driver` becomes what moves its frames, for people.
  static std::unique_ptr<DpdkPort> open(const DpdkLinkConfig& config, std::string* driver, std::string* error);
  ~DpdkPort() override;

  PortAttributes attributes() const override;
  Route* acquire_route(const IpAddress& destination, Qpn dest_qpn) override;
  void release_route(Route* route) override;
  void join_group(const IpAddress& group) override;
  void leave_group(const IpAddress& group) override;
  void begin_turn(Instant now, TurnReason reason) override;
  void end_turn(Instant now) override;
  std::size_t rx_burst(std::span<RxFrame> out) override;
  void rx_release() override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  bool take_change() override;
  Instant next_deadline() const override;
  bool peer_stalled(const Route& route) override;
  void prepare_wait(bool deep) override;
  bool wait(Duration at_most) override;
  void cancel_wait() override;
  void wake() override;

 private:
  struct DpdkRoute;
  static constexpr std::uint32_t kBurst = 64;

  explicit DpdkPort(DpdkCounters& counters);
  void resolve(DpdkRoute& route);
  void address(DpdkRoute& route, const MacAddress& mac);
  void follow(Instant now);
  void hear_neighbours();
  bool waits_for_neighbour(DpdkRoute& route);
  void take_answers(std::uint32_t first);
  void send_answers();
  void copy_to_self(std::span<const std::uint32_t> frame_bytes);
  void flush();
  void silence_bell();

  DpdkCounters& counters_;
  std::unique_ptr<Surroundings> around_;
  Ethdev* device_ = nullptr;  ///< of around_
  bool is_alone_ = false;     ///< there is no kernel that answers for the port
  std::vector<int> doorbells_;
  std::vector<IpAddress> groups_;  ///< multicast, joined; each as often as it was
  std::vector<std::unique_ptr<DpdkRoute>> routes_;
  Instant now_{};  ///< of the turn under way
  bool has_unresolved_ = false;
  Instant next_look_{};  ///< for neighbours that are not known

  std::array<rte_mbuf*, kBurst> received_{};
  std::uint32_t received_count_ = 0;
  std::array<rte_mbuf*, kBurst> reserved_{};
  std::uint32_t reserved_count_ = 0;
  FrameQueue to_device_;
  FrameQueue to_self_;

  int bell_ = -1;                  ///< eventfd
  std::atomic<bool> rung_{false};  ///< the bell has been rung since it was last silenced
  bool is_deep_ = false;           ///< the wait to come ends with each arrival
};

}  // namespace roci::dpdk
