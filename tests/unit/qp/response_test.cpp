// What a requester makes of responses: each is right in one place only, and the rest is an error or does nothing.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::WirePair;

constexpr std::uint32_t kMtu = 1024;
constexpr std::uint8_t kAckSyndrome = 0x1f;

/// `a` has asked `b`, from PSN 100 on, and `b` answers as the test tells it.
struct Asked {
  void ask(WrOpcode opcode, std::uint32_t bytes) {
    element = pair.a.sge(0, bytes);
    pair.a.post({.wr_id = 1,
                 .opcode = opcode,
                 .flags = kSendSignaled,
                 .num_sge = 1,
                 .sges = &element,
                 .remote_addr = pair.b.address(0),
                 .rkey = RKey{pair.b.mr->key}});
    pair.run([](Frame&) { return false; });
  }
  void answer(Opcode opcode, std::uint32_t psn, std::uint32_t bytes, std::uint8_t syndrome = kAckSyndrome) {
    const OpcodeInfo& info = opcode_info(opcode);
    const PacketPlan plan{.opcode = opcode, .psn = Psn(psn), .payload_bytes = bytes};
    Frame frame(kMaxFrameBytes);
    std::byte* out = pair.b.qp->path().open(frame.data(), *pair.b.qp->route(), plan);
    if (info.has(Extension::kAeth)) Aeth{.syndrome = syndrome, .msn = 1}.write(out);
    if (info.has(Extension::kAtomicAckEth)) AtomicAckEth{.original = 77}.write(out + Aeth::kSize);
    std::fill_n(out + info.extension_bytes, bytes, std::byte{7});
    frame.resize(pair.b.qp->path().close(frame.data(), *pair.b.qp->route(), plan));
    pair.a.port.arrived.push_back(frame);
    pair.run([](Frame&) { return false; });
  }
  /// -1: nothing has completed.
  int status() {
    const auto done = pair.a.completions();
    return done.empty() ? -1 : static_cast<int>(done.front().status);
  }

  WirePair pair;
  Sge element{};
};

struct Response : ::testing::Test, Asked {};

constexpr int kSuccess = static_cast<int>(WcStatus::kSuccess);
constexpr int kBadResponse = static_cast<int>(WcStatus::kBadRespErr);
constexpr int kNothing = -1;

constexpr Opcode kFirst = Opcode::kRcReadResponseFirst;
constexpr Opcode kMiddle = Opcode::kRcReadResponseMiddle;
constexpr Opcode kLast = Opcode::kRcReadResponseLast;
constexpr Opcode kOnly = Opcode::kRcReadResponseOnly;

/// IBTA 9.9.2, and ibv_wc_status: an unexpected opcode is a bad response.
TEST_F(Response, read__each_opcode_in_each_place) {
  struct Row {
    std::uint32_t packets;
    std::vector<Opcode> opcodes;
    int status;
  };
  const std::array rows{
      Row{1, {kOnly}, kSuccess},
      Row{1, {kFirst}, kBadResponse},
      Row{1, {kMiddle}, kBadResponse},
      Row{1, {kLast}, kBadResponse},
      Row{2, {kFirst, kLast}, kSuccess},
      Row{2, {kOnly}, kBadResponse},
      Row{2, {kMiddle}, kBadResponse},
      Row{2, {kLast}, kBadResponse},
      Row{2, {kFirst, kOnly}, kBadResponse},
      Row{2, {kFirst, kFirst}, kBadResponse},
      Row{2, {kFirst, kMiddle}, kBadResponse},
      Row{3, {kFirst, kMiddle, kLast}, kSuccess},
      Row{3, {kFirst, kFirst}, kBadResponse},
      Row{3, {kFirst, kLast}, kBadResponse},
      Row{3, {kFirst, kOnly}, kBadResponse},
      Row{3, {kFirst, kMiddle, kMiddle}, kBadResponse},
      Row{3, {kFirst, kMiddle, kOnly}, kBadResponse},
      Row{3, {kFirst, kMiddle}, kNothing},
  };
  for (const Row& row : rows) {
    Asked fresh;
    fresh.ask(WrOpcode::kRdmaRead, row.packets * kMtu);
    std::uint32_t psn = 100;
    for (const Opcode opcode : row.opcodes) fresh.answer(opcode, psn++, kMtu);
    const std::size_t number = static_cast<std::size_t>(&row - rows.data());
    EXPECT_EQ(fresh.status(), row.status) << "row " << number;
    EXPECT_EQ(fresh.pair.a.counters.req_bad_responses, row.status == kBadResponse ? 1u : 0u) << "row " << number;
  }
}

/// What is asked for again from the middle on begins there; some responders go on as if it had not.
TEST_F(Response, read__from_where_it_was_asked_for_again) {
  for (const bool begins : {true, false}) {
    Asked fresh;
    fresh.ask(WrOpcode::kRdmaRead, 4 * kMtu);
    fresh.answer(kFirst, 100, kMtu);
    fresh.answer(kMiddle, 102, kMtu);
    ASSERT_EQ(fresh.pair.log.back(), "> RC_READ_REQUEST psn=101 ack LOST");
    fresh.answer(begins ? kFirst : kMiddle, 101, kMtu);
    // Where nothing was asked for again, nothing begins.
    fresh.answer(begins ? kMiddle : kFirst, 102, kMtu);
    fresh.answer(kLast, 103, kMtu);
    EXPECT_EQ(fresh.status(), begins ? kSuccess : kBadResponse);
  }
}

TEST_F(Response, read__wrong_length_is_a_bad_response) {
  for (const std::uint32_t bytes : {0u, kMtu - 4, kMtu - 100}) {
    Asked fresh;
    fresh.ask(WrOpcode::kRdmaRead, 2 * kMtu);
    fresh.answer(kFirst, 100, bytes);
    EXPECT_EQ(fresh.status(), kBadResponse) << bytes;
  }
}

TEST_F(Response, of_another_operation_is_a_bad_response) {
  for (const auto& [asked, answered] : {std::pair{WrOpcode::kRdmaWrite, kOnly},
                                        {WrOpcode::kSend, Opcode::kRcAtomicAcknowledge},
                                        {WrOpcode::kAtomicFetchAdd, kOnly},
                                        {WrOpcode::kRdmaRead, Opcode::kRcAtomicAcknowledge}}) {
    Asked fresh;
    fresh.ask(asked, 8);
    fresh.answer(answered, 100, answered == kOnly ? 8 : 0);
    EXPECT_EQ(fresh.status(), kBadResponse) << opcode_info(answered).name;
    EXPECT_EQ(fresh.pair.a.memory[0], std::byte{});
    EXPECT_EQ(fresh.pair.a.qp->state(), QpState::kErr);
  }
}

/// IBTA 9.9.2, ghost acknowledges: what is outside of what is outstanding is dropped.
TEST_F(Response, ghost__changes_nothing) {
  ask(WrOpcode::kRdmaRead, 2 * kMtu);
  std::uint64_t ghosts = 0;
  for (const std::uint32_t psn : {99u, 102u, 0u, 0x800063u}) {
    for (const Opcode opcode : {kFirst, kMiddle, kLast, kOnly, Opcode::kRcAtomicAcknowledge, Opcode::kRcAcknowledge}) {
      answer(opcode, psn, opcode_info(opcode).may_carry_payload() ? kMtu : 0);
      EXPECT_EQ(pair.a.counters.rx_ghost_acknowledge, ++ghosts);
    }
  }
  EXPECT_EQ(status(), kNothing);
  EXPECT_EQ(pair.a.memory[0], std::byte{});
  answer(kFirst, 100, kMtu);
  answer(kLast, 101, kMtu);
  EXPECT_EQ(status(), kSuccess);
}

/// IBTA tables 43 and 46: 10xxxxx, and NAK codes from 5 on, mean nothing, and acknowledge nothing before them either.
TEST_F(Response, reserved_syndromes__are_dropped) {
  ask(WrOpcode::kRdmaWrite, 8);
  ask(WrOpcode::kRdmaWrite, 8);
  std::uint64_t dropped = 0;
  for (int syndrome = 0; syndrome < 0x80; ++syndrome) {
    if ((syndrome >> 5) != 2 && ((syndrome >> 5) != 3 || (syndrome & 0x1f) < 5)) continue;
    answer(Opcode::kRcAcknowledge, 101, 0, static_cast<std::uint8_t>(syndrome));
    EXPECT_EQ(pair.a.counters.rx_reserved_syndrome, ++dropped) << syndrome;
  }
  EXPECT_EQ(dropped, 32u + 27u);
  EXPECT_EQ(status(), kNothing);
  EXPECT_EQ(pair.a.qp->state(), QpState::kRts);
  answer(Opcode::kRcAcknowledge, 101, 0);
  EXPECT_EQ(pair.a.completions().size(), 2u);
}

TEST_F(Response, read_and_atomic__with_a_nak_in_them_are_dropped) {
  for (const std::uint8_t syndrome : {0x20, 0x40, 0x60, 0x63}) {
    Asked fresh;
    fresh.ask(WrOpcode::kRdmaRead, 8);
    fresh.answer(kOnly, 100, 8, syndrome);
    EXPECT_EQ(fresh.status(), kNothing);
    EXPECT_EQ(fresh.pair.a.counters.rx_reserved_syndrome, 1u);
    EXPECT_EQ(fresh.pair.a.memory[0], std::byte{});
  }
  ask(WrOpcode::kAtomicFetchAdd, 8);
  answer(Opcode::kRcAtomicAcknowledge, 100, 0, 0x60);
  EXPECT_EQ(status(), kNothing);
  answer(Opcode::kRcAtomicAcknowledge, 100, 0);
  EXPECT_EQ(status(), kSuccess);
  EXPECT_EQ(pair.a.memory[0], std::byte{77});
}

}  // namespace
}  // namespace roci
