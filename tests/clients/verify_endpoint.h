// One end: verbs objects, and a TCP connection to the other end for what verbs need to be told and for barriers.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/clients/verify_options.h"

namespace verify {

[[noreturn]] void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

/// Prints an error and counts it.
void complain(std::uint64_t* errors, const char* format, ...) __attribute__((format(printf, 2, 3)));

class Peer {
 public:
  /// Connects or accepts, as the options say.
  explicit Peer(const Options& options);
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Sends `bytes` from `ours` and receives as many into `theirs`.
  void exchange(const void* ours, void* theirs, std::size_t bytes);
  void barrier() {
    char ours = 'b';
    char theirs = 0;
    exchange(&ours, &theirs, 1);
    if (theirs != 'b') fail("the peer gave up");
  }

 private:
  int fd_ = -1;
};

/// Memory of one QP: a slot an operation of a batch, with guards around the data.
constexpr std::size_t kGuardBytes = 64;
/// What comes in front of a datagram.
constexpr std::size_t kGrhBytes = 40;
/// Of datagrams' QPs.
constexpr std::uint32_t kQkey = 0x5eed;

struct Endpoint {
  Endpoint(const Options& options, Peer& peer);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  std::size_t slot_bytes() const { return slot_bytes_; }
  /// Where data of slot `slot` of QP `qp` starts; guards lie before and after. `area` 0 is what this end sends from and
  /// reads into, 1 what the peer reads and writes.
  std::uint8_t* data(std::uint32_t area, std::uint32_t qp, std::uint32_t slot) {
    return memory.data() + area_offset(area, qp, slot);
  }
  std::uint64_t remote_address(std::uint32_t qp, std::uint32_t slot) const {
    // A window of type 2 is zero-based.
    return (options.window_type == 2 ? 0 : remote_base) + area_offset(1, qp, slot);
  }
  std::size_t area_offset(std::uint32_t area, std::uint32_t qp, std::uint32_t slot) const {
    return ((std::size_t{area} * options.qps + qp) * options.batch + slot) * slot_bytes_ + kGuardBytes;
  }
  /// Binds the windows anew and learns the keys of the peer's; nothing else may be under way.
  void bind_windows();
  /// Where the header of a datagram goes that is received into slot `slot` of QP `qp`.
  std::uint8_t* grh(std::uint32_t qp, std::uint32_t slot) {
    return memory.data() + area_offset(2, 0, 0) - kGuardBytes + (std::size_t{qp} * options.batch + slot) * kGrhBytes;
  }
  bool is_datagram() const { return options.transport == Transport::kUd; }
  /// True if the completion, of a receive, and the header at `grh` tell that the peer's QP sent the datagram.
  bool is_from_peer(const ibv_wc& wc, std::uint8_t* grh, std::uint32_t qp) const;
  /// Waits for completions, by polling or by events; at least one.
  std::vector<ibv_wc> wait_for_completions();

  const Options options;
  Peer& peer;
  std::vector<std::uint8_t> memory;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  std::vector<ibv_qp*> qps;
  std::vector<ibv_mw*> windows;  ///< one for each QP
  std::vector<std::uint32_t> remote_qpns;
  ibv_ah* ah = nullptr;  ///< of datagrams
  std::uint64_t remote_base = 0;
  std::vector<std::uint32_t> remote_keys;  ///< by QP
  std::uint32_t mtu_bytes = 0;

 private:
  void open_device();
  void create_objects();
  void connect();
  void bind_window(std::uint32_t qp);
  void bring_up(ibv_qp* qp, std::uint32_t our_psn, std::uint32_t their_qpn, std::uint32_t their_psn);
  ibv_ah_attr path() const;

  bool windows_are_bound_ = false;
  std::size_t slot_bytes_ = 0;
  int gid_index_ = 0;
  ibv_gid gid_{};
  ibv_gid remote_gid_{};
  ibv_mtu mtu_{};
};

}  // namespace verify
