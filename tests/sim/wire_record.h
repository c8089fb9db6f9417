// What went over the simulated wire in one run: a digest of every byte, and for each QP enough to tell whether a
// request that was given up had truly been tried as often as it must.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "stack/wire/packet.h"
#include "tests/sim/recorded_port.h"

namespace roci::simtest {

class WireRecord : public FrameObserver {
 public:
  /// `trace`: print each frame on standard error.
  explicit WireRecord(bool trace) : trace_(trace) {}

  void on_sent(Instant now, std::uint32_t host, std::span<const std::byte> frame) override;
  void on_received(Instant now, std::uint32_t host, std::span<const std::byte> frame) override;

  /// Tells which QP's requests go to `dest`; responses to a QP carry its own number.
  void connect(Qpn own, Qpn dest, std::uint32_t mtu) { requester_of_[dest] = {own, mtu}; }

  std::uint64_t digest() const { return digest_; }
  std::uint64_t frames() const { return frames_; }

  /// When `own` tried its request with PSN `oldest` before it gave up at `failed_at`: the last `attempts` times, newest
  /// first, each followed by about `timeout` of waiting. Empty if there were fewer, or an answer that got it further.
  std::vector<Instant> attempts_of(Qpn own, Psn oldest, Instant failed_at, std::uint32_t attempts,
                                   Duration timeout) const;

 private:
  struct Sent {
    Instant at;
    Psn psn;
    Psn last;         ///< of a READ: the PSN of the last response it asks for
    bool needs_data;  ///< READ or atomic: only its own response answers it

    bool covers(Psn wanted) const { return !wanted.before(psn) && !wanted.after(last); }
  };
  struct Answer {
    Instant at;
    Psn psn;       ///< of the packet
    bool is_data;  ///< READ or atomic response
    bool is_nak;   ///< answers only what is before its PSN

    bool answers(Psn request, bool needs_data) const;
  };

  void print(char mark, Instant now, std::uint32_t host, std::span<const std::byte> frame) const;

  const bool trace_;
  std::uint64_t digest_ = 0xcbf2'9ce4'8422'2325;
  std::uint64_t frames_ = 0;
  struct Requester {
    Qpn qpn;
    std::uint32_t mtu;
  };
  std::map<Qpn, Requester> requester_of_;       ///< by the QP that its requests go to
  std::map<Qpn, std::vector<Sent>> requests_;   ///< by requester
  std::map<Qpn, std::vector<Answer>> answers_;  ///< by requester; whole ones only
};

}  // namespace roci::simtest
