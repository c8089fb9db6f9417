// One rank's end of a ring: RC queue pairs to the next rank and from the one before it, used as collective libraries
// use them. The receiver of a message says by an RDMA WRITE where it is to go; the sender writes it there over all
// queue pairs, the last write of each with immediate data, for which a receive of no bytes waits; the receiver reads a
// little of the data back through a queue pair to itself before it uses them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/clients/loaded_verbs.h"

namespace allreduce {

inline constexpr std::size_t kQps = 3;     ///< to a neighbour
inline constexpr std::size_t kSlots = 16;  ///< receives that may be announced at a time

/// What the neighbours tell each other over TCP.
struct EndPoint {
  std::array<std::uint32_t, kQps> qpns;
  ibv_gid gid;
  std::uint64_t slots_address;
  std::uint32_t slots_rkey;
  ibv_mtu mtu;
};

/// Where a message is to go. The last word is looked at first: a WRITE arrives in the order of addresses.
struct alignas(64) Slot {
  std::uint64_t address;
  std::uint64_t bytes;
  std::uint32_t rkey;
  std::uint32_t reserved[9];
  std::uint64_t number;  ///< of the message, from 1 on
};
static_assert(sizeof(Slot) == 64);

/// The device: opened, its RoCE v2 address found as sysfs tells, its asynchronous events followed by a thread.
class Device {
 public:
  explicit Device(const LoadedVerbs& functions);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  ibv_mr* register_memory(void* data, std::size_t bytes) const;
  /// In INIT, with `access` for the peer. Completions of both queues go to `cq`.
  ibv_qp* make_qp(ibv_cq* cq, unsigned access) const;
  void connect(ibv_qp* qp, std::uint32_t dest_qpn, const ibv_gid& dgid, ibv_mtu mtu) const;

  const LoadedVerbs& verbs;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_port_attr port{};
  int gid_index = -1;
  ibv_gid gid{};

 private:
  void open();
  void choose_gid();
  void probe_dmabuf() const;
};

/// Towards the next rank.
class Sender {
 public:
  explicit Sender(Device& device);
  ~Sender();
  EndPoint describe() const;
  void connect(const EndPoint& receiver);

  /// One message at a time: waits for its slot in progress(). `data` lies in `mr`.
  void begin(const std::byte* data, std::size_t bytes, const ibv_mr* mr);
  /// True when the message that was begun has left.
  bool progress();

 private:
  void post();

  Device& device_;
  ibv_cq* cq_;
  std::array<ibv_qp*, kQps> qps_;
  std::array<Slot, kSlots> slots_{};  ///< written by the receiver
  ibv_mr* slots_mr_;
  std::uint64_t number_ = 0;
  std::uint32_t outstanding_ = 0;
  bool posted_ = true;
  const std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  const ibv_mr* mr_ = nullptr;
};

/// From the rank before.
class Receiver {
 public:
  explicit Receiver(Device& device);
  ~Receiver();
  EndPoint describe() const;
  void connect(const EndPoint& sender);

  void begin(std::byte* data, std::size_t bytes, const ibv_mr* mr);
  /// True when the message is there and has been flushed.
  bool progress();

 private:
  void announce();
  void flush();
  void take(const ibv_wc& wc);

  Device& device_;
  ibv_cq* cq_;
  std::array<ibv_qp*, kQps> qps_;
  ibv_qp* flush_qp_;
  std::array<Slot, kSlots> slots_{};  ///< what the sender has been told
  ibv_mr* slots_mr_;
  std::uint64_t flushed_ = 0;  ///< where the flush reads to
  ibv_mr* flushed_mr_;
  EndPoint sender_{};
  std::uint64_t number_ = 0;
  std::size_t arrived_ = 0;  ///< writes with immediate data of this message
  std::uint64_t arrived_bytes_ = 0;
  bool flushing_ = false;
  bool done_ = true;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  const ibv_mr* mr_ = nullptr;
};

}  // namespace allreduce
