// The cable: a virtual segment that joins up to 64 processes of one user on one machine, by rings in shared memory.
//
// Any process may come, go, crash and come back. A full ring is back-pressure, never a drop. Nothing here needs root,
// hugepages or a disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "drivers/cable/cable_counters.h"
#include "drivers/cable/ring.h"
#include "drivers/cable/shared_file.h"
#include "stack/engine/port.h"

namespace roci {

struct CableConfig {
  std::string name = "default";
  std::vector<IpAddress> addresses;  ///< empty: end n is 198.18.0.(n+1) and fd00::(n+1)
  std::string host;                  ///< ends with one host name share its addresses; empty: a host of its own
  std::string device_name = "roci0";
  std::uint64_t speed_bps = 100'000'000'000;
};

class CablePort : public Port {
 public:
  /// Joins the cable, or makes it. Null with errno and `*error` on failure.
  static std::unique_ptr<CablePort> open(const CableConfig& config, std::string* error);
  /// Joins with several ends of one host, for as many workers: one MAC and the same addresses, a block of QP numbers
  /// each, and QP1 at the first. Empty with errno and `*error` on failure. They are closed one after another.
  static std::vector<std::unique_ptr<CablePort>> open_ends(const CableConfig& config, std::size_t count,
                                                           std::string* error);
  ~CablePort() override;

  /// Shared memory for the stack's own counters; `roci stat` reads it.
  std::span<std::uint64_t> counter_region();

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
  bool peer_stalled(const Route& route) override;
  std::uint64_t incarnation(const IpAddress& destination, Qpn dest_qpn) override;
  std::optional<std::uint32_t> next_of_host() override;
  void prepare_wait(bool deep) override;
  bool wait(Duration at_most) override;
  void cancel_wait() override;
  void wake() override;
  void close() override;

 private:
  struct CableRoute;
  struct Peer;

  explicit CablePort(std::shared_ptr<cable::SharedFile> file);
  bool join(const CableConfig& config, const CablePort* first, std::string* error);
  bool choose_place(const CablePort& first, std::string* error);
  bool choose_identity(const CableConfig& config, std::string* error);
  void write_record(const CableConfig& config, bool is_follower);
  void clear_dead_ends();

  void notice_changes();
  void attach_incoming();
  void close_peer(std::uint32_t end);
  void detach_consumer(std::uint32_t end);
  void detach_drained();
  bool attach_outgoing(std::uint32_t end);
  void check_waiting_peers(Instant now);
  void check_waiting_peer(std::uint32_t end, Instant now);
  void ring_bell(std::uint32_t end);
  bool peer_is_alive(std::uint32_t end, Instant now);
  void bind(CableRoute& route);
  void set_filter(std::uint64_t filter);
  std::uint64_t find_members(const IpAddress& group) const;
  std::size_t reserve_for_group(CableRoute& route, std::span<TxSlot> out);
  void commit_to_group(const CableRoute& route, std::span<const std::uint32_t> frame_bytes);
  void note_unconsumed(std::uint32_t end);
  int find_end(const IpAddress& address, Qpn qpn) const;

  const std::shared_ptr<cable::SharedFile> file_;  ///< of all ends of this process
  std::uint32_t self_ = 0;
  std::uint32_t epoch_ = 0;
  MacAddress mac_;
  std::vector<IpAddress> addresses_;
  std::uint64_t speed_bps_ = 0;
  CableCounters* counters_ = nullptr;

  std::uint64_t seen_generation_ = 0;
  Instant now_{};
  std::unique_ptr<std::array<Peer, cable::kMaxEnds>> peers_;
  std::vector<std::unique_ptr<CableRoute>> routes_;

  // Receiving: ends whose rings are open, looked at in turn.
  std::vector<std::uint32_t> senders_;
  std::size_t next_sender_ = 0;
  std::uint64_t closing_ = 0;        ///< a bit for each end that is gone and has left frames
  std::uint64_t burst_senders_ = 0;  ///< a bit for each end that has frames in the burst not yet released

  // Sending.
  std::uint64_t unconsumed_ = 0;  ///< a bit for each end that may not have taken all that was sent to it
  bool reserved_sink_ = false;
  std::unique_ptr<std::byte[]> sink_;            ///< where frames to nobody, and to groups, are written
  std::array<std::uint32_t, 64> group_users_{};  ///< of each bit of the filter

  std::uint32_t bell_before_wait_ = 0;  ///< background thread
};

}  // namespace roci
