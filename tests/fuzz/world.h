// One run: a whole stack with QPs, regions and work requests as the input says, then the input's steps, with every
// promise checked on the way.
//
// Settings, 37 bytes: one byte (QPs less one in bits 0 and 1, a CQ of 4 entries in bit 2, IPv6 in bit 3, a small window
// in bit 4); for each of 4 regions three bytes (length code, AccessFlag bits and the PD in bit 4, where its keys'
// addresses start); for each of 3 QPs eight bytes (see QpSettings).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stack/base/counters.h"
#include "stack/base/entropy.h"
#include "stack/control/device.h"
#include "tests/fuzz/frame_maker.h"
#include "tests/fuzz/fuzz_port.h"
#include "tests/fuzz/guarded_memory.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/ledger.h"

namespace roci::fuzz {

/// What the input says of a QP, a byte each.
struct QpSettings {
  std::uint8_t state = 0;      ///< QpState, modulo 7
  std::uint8_t access = 0;     ///< AccessFlag bits of peers; bit 0: all signalled, bit 4: on the SRQ, bit 5: second PD
  std::uint8_t mtu = 0;        ///< code of ibv_mtu less one, modulo 5
  std::uint8_t rd_atomic = 0;  ///< as initiator in the low half, as target in the high one
  std::uint8_t timeout = 0;    ///< modulo 32
  std::uint8_t retries = 0;    ///< retry_cnt in bits 0 to 2, rnr_retry in bits 3 to 5
  std::uint8_t rnr_timer = 0;  ///< modulo 32
  std::uint8_t first_psn = 0;  ///< in all three bytes of both PSNs
};

/// Keys and QPNs that are the same in each run.
class FuzzEntropy : public Entropy {
 public:
  std::uint64_t next() override { return value_ += 0x9e37'79b9'7f4a'7c15; }

 private:
  std::uint64_t value_ = 1;
};

class NoEvents : public EventSink {
 public:
  void on_completion_event(Cq&) override {}
  void on_async_event(const AsyncEvent&) override {}
};

class World {
 public:
  static constexpr std::size_t kMostQps = Ledger::kMostQps;
  static constexpr std::size_t kRegions = GuardedMemory::kAreas;

  explicit World(Input& input);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  /// Takes all steps of the input, then ends: every QP to ERR, and nothing may be missing.
  void run(Input& input);

  const Counters& counters() const { return counters_; }

 private:
  /// The peer's side of a QP, as far as frames and counters tell.
  struct Endpoint {
    Qp* qp = nullptr;
    QpSettings settings;
    std::size_t pd = 0;
    Psn expected_psn;
    std::uint32_t msn = 0;
    std::uint64_t write_va = 0;  ///< the WRITE being received: where it goes on
    RKey write_rkey;
    std::uint32_t write_left = 0;  ///< and its bytes to come
  };
  struct Region {
    Mr* mr = nullptr;
    std::size_t pd = 0;
  };

  void make_region(std::size_t number, std::uint8_t length_code, std::uint8_t access, std::uint8_t placement);
  void make_qp(std::uint32_t number, Input& input);

  void take_step(Input& input);
  void step_frame(std::uint32_t qp, std::uint32_t region, Input& input);
  void step_send(std::uint32_t qp, std::uint32_t region, Input& input);
  void step_receive(std::uint32_t qp, std::uint32_t region, Input& input);
  void step_time(std::uint8_t code);
  void step_modify(std::uint32_t qp, Input& input);
  void step_memory(std::uint32_t region, Input& input);
  void step_link(std::uint8_t code);

  std::vector<Sge> elements(std::uint32_t region, Input& input);
  Target target(const Endpoint& endpoint, std::uint32_t region) const;
  void move_to(std::uint32_t number, QpState state);

  void deliver(std::span<const std::byte> frame);
  void note_executed(const PacketView& view, const Counters& before);
  void note_write(Endpoint& endpoint, const PacketView& view);
  void check_allowed(const Endpoint& endpoint, RKey rkey, std::uint64_t va, std::uint64_t bytes,
                     std::uint32_t right) const;
  void check_response(const PacketView& view, const Target& awaited, std::optional<WrOpcode> oldest) const;
  void check_counted(bool parses, const PacketView& view, const Counters& before) const;
  void turn();
  void check_sent();
  void take_completions();
  void update_permissions();
  void end();

  Endpoint* find(Qpn qpn);
  std::uint32_t number_of(const Endpoint& endpoint) const {
    return static_cast<std::uint32_t>(&endpoint - qps_.data());
  }

  static GuardedMemory& memory();

  FuzzPort port_;
  FuzzEntropy entropy_;
  NoEvents events_;
  Counters counters_;
  std::unique_ptr<Device> device_;
  Instant now_{1'000'000};
  bool is_v4_ = true;
  std::array<Pd*, 2> pds_{};
  Cq* cq_ = nullptr;
  Srq* srq_ = nullptr;
  std::vector<Endpoint> qps_;
  std::array<Region, kRegions> regions_;
  Ledger ledger_;
  std::size_t srq_resets_ = 0;  ///< each may have taken a request of the SRQ with it
};

}  // namespace roci::fuzz
