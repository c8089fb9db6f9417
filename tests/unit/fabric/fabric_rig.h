// A switch with a host at each port, in virtual time: hosts send as the test says, obey PFC between frames, and note
// what they receive.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "drivers/fabric/frame.h"
#include "drivers/fabric/switch.h"
#include "stack/egress/pause.h"
#include "stack/wire/headers_l3.h"
#include "stack/wire/traffic_class.h"

namespace roci::fabric {

/// A UDP frame, the rest of whose payload is elided.
struct FrameSpec {
  std::uint32_t source = 0;
  std::uint32_t destination = 0;
  std::uint32_t frame_bytes = 1'000;
  std::uint8_t priority = 3;
  Ecn ecn = Ecn::kEct0;
  std::uint16_t udp_source_port = 0xc000;
  bool is_v4 = true;
};
Frame* make_frame(FramePool& pool, const FrameSpec& spec);
Frame* make_pfc(FramePool& pool, std::uint16_t class_enable, const std::array<std::uint16_t, 8>& quanta);

/// Things to do, in order of time, then of entry.
class Agenda {
 public:
  Instant now() const { return now_; }
  void at(Instant when, std::function<void()> action) { actions_.emplace(when, std::move(action)); }
  void run_until(Instant end);

 private:
  std::multimap<Instant, std::function<void()>> actions_;
  Instant now_{};
};

struct Received {
  Instant at{};
  std::uint32_t source = 0;
  std::uint32_t frame_bytes = 0;
  std::uint8_t priority = 0;
};
struct ReceivedPfc {
  Instant at{};
  std::vector<std::byte> bytes;
  PfcFrame pfc() const { return PfcFrame::read(bytes.data() + EthernetHeader::kSize); }
};

class Rig {
 public:
  /// Host n is at port n.
  Rig(const SwitchConfig& config, std::uint32_t hosts, std::uint64_t seed = 1, const SwitchPortConfig& port = {});
  Rig(const SwitchConfig& config, std::span<const SwitchPortConfig> ports, std::uint64_t seed);

  Agenda agenda;
  FramePool pool{kMaxFrame};
  Switch sw;
  bool passes = false;       ///< frames are given to pass() before receive()
  std::uint64_t passed = 0;  ///< that pass() has sent

  static constexpr std::uint32_t kMaxFrame = 4'272;

  /// The host sends `frames` frames at its line rate, back to back but for pauses, from `start` on.
  void send(const FrameSpec& spec, std::uint64_t frames, Instant start = {});
  /// The last bit arrives at the switch at `at`, whatever else the link may be doing.
  void inject(unsigned port, const FrameSpec& spec, Instant at);
  void inject_pfc(unsigned port, unsigned priority, std::uint16_t quanta, Instant at);
  void run_until(Instant end) { agenda.run_until(end); }

  const std::vector<Received>& received(unsigned host) const { return hosts_[host].received; }
  const std::vector<ReceivedPfc>& pfc_received(unsigned host) const { return hosts_[host].pfc_received; }
  /// The frame that the host received last, as bytes.
  const std::vector<std::byte>& last_frame(unsigned host) const { return hosts_[host].last_frame; }
  std::uint64_t drops(DropReason reason) const;
  std::uint64_t drops() const;

 private:
  struct Stream {
    FrameSpec spec;
    std::uint64_t left = 0;
  };
  struct Host {
    std::vector<Stream> streams;  ///< the first one that may goes
    Instant busy_until{};
    Instant resumes_at = kNever;
    egress::PauseState pauses;
    std::vector<Received> received;
    std::vector<ReceivedPfc> pfc_received;
    std::vector<std::byte> last_frame;
  };

  void receive(unsigned port, Frame* frame);
  void turn(unsigned port);
  void leave(unsigned port, const Transmission& sent);
  /// Once at the earliest of the times asked for; `scheduled` is that time.
  void schedule(Instant& scheduled, Instant at, std::function<void()> action);
  void serve_woken();
  void host_sends(unsigned host);
  void arrive(unsigned host, Frame* frame);

  std::vector<SwitchPortConfig> ports_;
  std::vector<Host> hosts_;
  std::vector<Instant> turn_at_;
};

}  // namespace roci::fabric
