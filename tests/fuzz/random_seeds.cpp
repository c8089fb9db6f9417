#include <algorithm>
#include <array>

#include "stack/base/random.h"
#include "stack/queues/work.h"
#include "stack/wire/aeth.h"
#include "stack/wire/headers.h"
#include "stack/wire/opcodes.h"
#include "tests/fuzz/frame_maker.h"
#include "tests/fuzz/input.h"
#include "tests/fuzz/seeds.h"

namespace roci::fuzz {
namespace {

constexpr std::uint32_t kRegions = 4;
constexpr std::uint32_t kQps = 3;
constexpr std::uint32_t kSteps = 60;
constexpr std::uint32_t kReceivesFirst = 8;
constexpr std::uint8_t kRts = 3;
constexpr std::uint8_t kAllRights = 0xf;

class Conversation {
 public:
  explicit Conversation(std::uint64_t number) : random_(number, 0) {}

  std::vector<std::uint8_t> make() {
    put_settings();
    for (std::uint32_t i = 0; i < kReceivesFirst; ++i) put_receive();
    for (std::uint32_t i = 0; i < kSteps; ++i) put_step();
    return out_.take();
  }

 private:
  std::uint32_t below(std::uint32_t bound) { return static_cast<std::uint32_t>(random_.below(bound)); }
  bool one_in(std::uint32_t n) { return below(n) == 0; }
  std::uint8_t byte() { return static_cast<std::uint8_t>(below(256)); }
  template <class T, std::size_t n>
  T one_of(const std::array<T, n>& values) {
    return values[below(n)];
  }

  void put_settings() {
    out_.u8(byte() & (one_in(4) ? 0x1f : 0x1b));
    for (std::uint32_t i = 0; i < kRegions; ++i) {
      out_.u8(one_in(3) ? byte() : 0);
      out_.u8(one_in(3) ? byte() : kAllRights);
      out_.u8(byte());
    }
    for (std::uint32_t i = 0; i < kQps; ++i) {
      out_.u8(one_in(3) ? byte() : kRts);
      out_.u8(one_in(4) ? byte() : kAllRights);
      out_.u8(below(5));
      out_.u8(one_in(4) ? byte() : 0x44);
      out_.u8(below(16));
      out_.u8(byte());
      out_.u8(byte());
      out_.u8(one_in(2) ? 0xff : byte());
    }
  }

  void put_step() {
    qp_ = one_in(4) ? below(kQps) : 0;
    const std::uint32_t draw = below(100);
    if (draw < 25) return put_message();
    if (draw < 55) return put_response();
    if (draw < 75) return put_send();
    if (draw < 87) return put_receive();
    if (draw < 89) return put_byte_step(StepKind::kTime, one_in(2) ? 255 : byte());
    if (draw < 92) return put_byte_step(StepKind::kLink, byte() & (one_in(4) ? 7 : 3));
    if (draw < 93) return put_pair_step(StepKind::kModify);
    if (draw < 97) return put_new_connection();
    if (draw < 98) return put_pair_step(StepKind::kMemory);
    put_tagged_frame();
  }

  /// Returns the region that the step is about.
  std::uint32_t put_step_byte(StepKind kind) { return put_step_byte(kind, below(kRegions)); }
  std::uint32_t put_step_byte(StepKind kind, std::uint32_t region) {
    out_.u8(step_byte(kind, qp_, region));
    return region;
  }
  void put_byte_step(StepKind kind, std::uint8_t value) {
    put_step_byte(kind);
    out_.u8(value);
  }
  void put_pair_step(StepKind kind) { put_pair_step(kind, below(kRegions)); }
  void put_pair_step(StepKind kind, std::uint32_t region) {
    put_step_byte(kind, region);
    out_.u8(byte());
    out_.u8(byte());
  }

  /// RESET, INIT, RTR, RTS: whatever became of the QP, it speaks again.
  void put_new_connection() {
    for (std::uint8_t state = 0; state <= kRts; ++state) put_byte_step(StepKind::kModify, state);
    for (std::uint32_t i = 0; i < kReceivesFirst; ++i) put_receive();
  }

  std::uint32_t put_packet(Opcode opcode, std::uint8_t syndrome) {
    return put_packet(opcode, syndrome, one_in(8) ? static_cast<int>(below(7)) - 3 : 0);
  }

  std::uint32_t put_packet(Opcode opcode, std::uint8_t syndrome, int psn_offset) {
    const std::uint32_t region = put_step_byte(StepKind::kTemplate);
    out_.u8(static_cast<std::uint8_t>(opcode));
    out_.u8(static_cast<std::uint8_t>(psn_offset));
    std::uint8_t flags = byte() & (FrameTemplate::kAckRequested | FrameTemplate::kSolicited);
    if (!one_in(10)) flags |= FrameTemplate::kFits;
    if (one_in(20)) flags |= byte();
    out_.u8(flags);
    out_.u8(syndrome);
    out_.u16(one_in(8) ? below(65536) : below(64) * 8);
    out_.u16(dma_bytes_);
    out_.u16(below(one_in(3) ? 5000 : 64));
    return region;
  }

  /// A request of one packet, or all packets of one.
  void put_message() {
    using enum Opcode;
    dma_bytes_ = below(one_in(2) ? 64 : 2500);
    if (one_in(2)) {
      constexpr std::array kSingle{kRcSendOnly,    kRcSendOnlyImm, kRcWriteOnly,   kRcWriteOnlyImm,
                                   kRcReadRequest, kRcReadRequest, kRcCompareSwap, kRcFetchAdd};
      const Opcode opcode = one_in(40) ? kRcSendOnlyInv : one_of(kSingle);
      put_packet(opcode, byte());
      // Once more, as after a lost answer; of a READ perhaps only the end.
      if (one_in(2)) dma_bytes_ = std::min(dma_bytes_, 200u);
      if (one_in(3)) put_packet(opcode, byte(), -1 - static_cast<int>(below(2)));
      return;
    }
    constexpr std::array<std::array<Opcode, 3>, 4> kLong{{{kRcSendFirst, kRcSendMiddle, kRcSendLast},
                                                          {kRcSendFirst, kRcSendMiddle, kRcSendLastImm},
                                                          {kRcWriteFirst, kRcWriteMiddle, kRcWriteLast},
                                                          {kRcWriteFirst, kRcWriteMiddle, kRcWriteLastImm}}};
    const auto& parts = one_of(kLong);
    const std::uint32_t region = put_packet(parts[0], byte());
    for (std::uint32_t i = below(4); i > 0; --i) {
      put_packet(parts[1], byte());
      if (one_in(10)) put_pair_step(StepKind::kMemory, region);
    }
    put_packet(parts[2], byte());
  }

  void put_response() {
    using enum Opcode;
    constexpr std::array kResponses{kRcReadResponseFirst, kRcReadResponseMiddle, kRcReadResponseLast,
                                    kRcReadResponseOnly,  kRcAcknowledge,        kRcAcknowledge,
                                    kRcAtomicAcknowledge};
    constexpr std::uint8_t kReserved = 2 << 5;
    dma_bytes_ = below(65536);
    std::uint8_t syndrome = ack_syndrome(kNoCreditLimit);
    if (one_in(10)) {
      const std::array<std::uint8_t, 4> kinds{nak_syndrome(NakCode::kPsnSequenceError),
                                              nak_syndrome(static_cast<NakCode>(below(6))),
                                              rnr_nak_syndrome(static_cast<std::uint8_t>(below(32))), kReserved};
      syndrome = one_of(kinds);
    }
    put_packet(one_of(kResponses), syndrome);
  }

  void put_elements(std::uint32_t longest) {
    out_.u8(one_in(6) ? byte() & 0x1f : below(4));
    out_.u16(below(512));
    out_.u16(one_in(3) ? 8 : below(longest));
  }
  void put_send() {
    put_step_byte(StepKind::kSend);
    out_.u8(below(10));
    out_.u8(byte() | (one_in(2) ? kSendSignaled : 0));
    put_elements(4000);
  }
  void put_receive() {
    put_step_byte(StepKind::kReceive);
    put_elements(8000);
  }

  /// A packet behind an 802.1Q tag, whole or not.
  void put_tagged_frame() {
    constexpr std::size_t kBthOffset = EthernetHeader::kSize + VlanTag::kSize + Ipv4Header::kSize + UdpHeader::kSize;
    std::array<std::byte, kBthOffset + Bth::kSize + 20> frame{};
    EthernetHeader{.ether_type = kEtherTypeVlan}.write(frame.data());
    VlanTag{.tci = 1, .ether_type = kEtherTypeIpv4}.write(frame.data() + EthernetHeader::kSize);
    Bth{.opcode = static_cast<std::uint8_t>(Opcode::kRcSendOnly),
        .pkey = static_cast<std::uint16_t>(one_in(2) ? 0xffff : 0x7ffe)}
        .write(frame.data() + kBthOffset);
    const bool is_cut = one_in(3);
    put_byte_step(StepKind::kFrame, is_cut ? kRepairAll | kCutEnd : kRepairAll);
    out_.u8(is_cut ? byte() : 0);
    out_.u16(frame.size());
    out_.put(frame);
  }

  Random random_;
  InputWriter out_;
  std::uint32_t qp_ = 0;
  std::uint32_t dma_bytes_ = 0;
};

}  // namespace

Seed random_seed(std::uint64_t number) { return {"random-" + std::to_string(number), Conversation(number).make()}; }

}  // namespace roci::fuzz
