// Every kind of packet, lost, doubled, late and damaged, one at a time: what the stacks answer on the wire, and when.
//
// The rules come from IBTA volume 1: a gap in requests is answered by one NAK for a PSN sequence error that names the
// first missing PSN (9.7.5.2.8), the requester goes on from there; a gap in READ responses is an implied NAK
// (9.7.5.1.2, C9-88); what nobody can notice is the timer's, which strikes no sooner than 4.096 us x 2^timeout and no
// later than four times that (9.7.6.1.3); a duplicate is answered again but not executed again (9.7.5.1.4).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/sim/fault_pair.h"

namespace roci::simtest {
namespace {

enum class Mishap { kDrop, kCorrupt, kDelay, kDuplicate };

std::string name_of(Mishap mishap) {
  switch (mishap) {
    case Mishap::kDrop:
      return "dropped";
    case Mishap::kCorrupt:
      return "corrupted";
    case Mishap::kDelay:
      return "delayed";
    case Mishap::kDuplicate:
      return "duplicated";
  }
  return "";
}

/// A fault row that strikes the first packet of `opcode`.
std::string row(Mishap mishap, const std::string& opcode) {
  switch (mishap) {
    case Mishap::kDrop:
      return "drop nth=1 opcode=" + opcode;
    case Mishap::kCorrupt:
      return "corrupt=431 nth=1 opcode=" + opcode;  // the last bit of the PSN in Ethernet, IPv4, UDP and BTH
    case Mishap::kDelay:
      return "delay=25ms nth=1 opcode=" + opcode;  // six timeouts
    case Mishap::kDuplicate:
      return "duplicate nth=1 opcode=" + opcode;
  }
  return "";
}

constexpr std::uint32_t kFourPackets = 3 * FaultPair::kMtu + 100;
constexpr std::uint32_t kOnePacket = 100;
/// Longer than the delay, and than any number of timeouts that one fault may cost.
constexpr Duration kLongEnough = milliseconds(60);

struct RequestCase {
  WrOpcode opcode;
  const char* packet;     ///< opcode of the packet that has the mishap
  std::uint32_t length;   ///< of the message, in bytes
  std::uint32_t packets;  ///< of the message
  std::uint32_t index;    ///< of the packet in the message
  Mishap mishap;
};

bool takes_receive(WrOpcode opcode) {
  return opcode == WrOpcode::kSend || opcode == WrOpcode::kSendWithImm || opcode == WrOpcode::kRdmaWriteWithImm;
}

std::vector<RequestCase> request_cases() {
  struct Kind {
    WrOpcode opcode;
    const char* first;
    const char* middle;
    const char* last;
    const char* only;
  };
  constexpr Kind kKinds[] = {
      {WrOpcode::kSend, "RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST", "RC_SEND_ONLY"},
      {WrOpcode::kSendWithImm, "RC_SEND_FIRST", "RC_SEND_MIDDLE", "RC_SEND_LAST_IMM", "RC_SEND_ONLY_IMM"},
      {WrOpcode::kRdmaWrite, "RC_WRITE_FIRST", "RC_WRITE_MIDDLE", "RC_WRITE_LAST", "RC_WRITE_ONLY"},
      {WrOpcode::kRdmaWriteWithImm, "RC_WRITE_FIRST", "RC_WRITE_MIDDLE", "RC_WRITE_LAST_IMM", "RC_WRITE_ONLY_IMM"},
  };
  std::vector<RequestCase> cases;
  for (const Mishap mishap : {Mishap::kDrop, Mishap::kCorrupt, Mishap::kDelay, Mishap::kDuplicate}) {
    for (const Kind& kind : kKinds) {
      cases.push_back({kind.opcode, kind.first, kFourPackets, 4, 0, mishap});
      cases.push_back({kind.opcode, kind.middle, kFourPackets, 4, 1, mishap});
      cases.push_back({kind.opcode, kind.last, kFourPackets, 4, 3, mishap});
      cases.push_back({kind.opcode, kind.only, kOnePacket, 1, 0, mishap});
    }
    cases.push_back({WrOpcode::kRdmaRead, "RC_READ_REQUEST", kFourPackets, 1, 0, mishap});
    cases.push_back({WrOpcode::kAtomicCmpSwp, "RC_CMP_SWAP", 8, 1, 0, mishap});
    cases.push_back({WrOpcode::kAtomicFetchAdd, "RC_FETCH_ADD", 8, 1, 0, mishap});
  }
  return cases;
}

/// One operation of A, and what both sides must have of it in the end, however often packets were sent.
class Operation {
 public:
  Operation(FaultPair& pair, WrOpcode opcode, std::uint32_t length)
      : pair_(pair), opcode_(opcode), length_(length), original_(pair.b.word(kRemote)) {
    if (takes_receive(opcode)) pair.post_receive(kReceive, kFourPackets);
    pair.post(opcode, length, kLocal, kRemote);
  }

  void check_done() const {
    ASSERT_EQ(pair_.a.completions.size(), 1u);
    EXPECT_EQ(pair_.a.completions[0].status, WcStatus::kSuccess);
    ASSERT_EQ(pair_.b.completions.size(), takes_receive(opcode_) ? 1u : 0u);
    if (takes_receive(opcode_)) {
      EXPECT_EQ(pair_.b.completions[0].status, WcStatus::kSuccess);
      EXPECT_EQ(pair_.b.completions[0].byte_len, length_);
    }
    switch (opcode_) {
      case WrOpcode::kSend:
      case WrOpcode::kSendWithImm:
        return check_same(kReceive);
      case WrOpcode::kAtomicCmpSwp:
        EXPECT_EQ(pair_.a.word(kLocal), original_);
        EXPECT_EQ(pair_.b.word(kRemote), 77u);
        return;
      case WrOpcode::kAtomicFetchAdd:
        EXPECT_EQ(pair_.a.word(kLocal), original_);
        EXPECT_EQ(pair_.b.word(kRemote), original_ + 5);
        return;
      default:
        return check_same(kRemote);
    }
  }

 private:
  static constexpr std::uint32_t kLocal = 8;
  static constexpr std::uint32_t kRemote = 16 * 1024;
  static constexpr std::uint32_t kReceive = 32 * 1024;

  void check_same(std::size_t b_offset) const {
    EXPECT_EQ(std::memcmp(pair_.a.memory.data() + kLocal, pair_.b.memory.data() + b_offset, length_), 0);
  }

  FaultPair& pair_;
  const WrOpcode opcode_;
  const std::uint32_t length_;
  const std::uint64_t original_;
};

Psn psn_at(std::uint32_t index) { return Psn(FaultPair::kFirstPsn + index); }

/// The requests that A sent beyond the first `once`, which went out undisturbed.
std::vector<SeenFrame> resent(const FaultPair& pair, std::uint32_t once) {
  std::vector<SeenFrame> requests = pair.sent_by(pair.a);
  requests.erase(requests.begin(), requests.begin() + std::min<std::ptrdiff_t>(once, std::ssize(requests)));
  return requests;
}

void expect_by_timer(const FaultPair& pair, const SeenFrame& again, const SeenFrame& before) {
  EXPECT_GE(again.at - before.at, pair.timeout());
  EXPECT_LE(again.at - before.at, pair.timeout() * 4);
  EXPECT_EQ(pair.a.counters().local_ack_timeout_err, 1u);
}

void expect_at_once(const FaultPair& pair, const SeenFrame& again, const SeenFrame& before) {
  EXPECT_LT(again.at - before.at, microseconds(20));
  EXPECT_EQ(pair.a.counters().local_ack_timeout_err, 0u);
}

bool has_data_response(WrOpcode opcode) {
  return opcode == WrOpcode::kRdmaRead || opcode == WrOpcode::kAtomicCmpSwp || opcode == WrOpcode::kAtomicFetchAdd;
}

/// READ responses and results of atomics of B, as offsets from the first PSN, in the order sent.
std::vector<std::uint32_t> answers(const FaultPair& pair) {
  std::vector<std::uint32_t> offsets;
  for (const SeenFrame& frame : pair.sent_by(pair.b))
    if (frame.opcode != Opcode::kRcAcknowledge)
      offsets.push_back(static_cast<std::uint32_t>(frame.psn.distance_from(psn_at(0))));
  return offsets;
}

/// 0 .. packets-1, and then from each of `restarts` to the end again.
std::vector<std::uint32_t> answered_from(std::uint32_t packets, const std::vector<std::uint32_t>& restarts) {
  std::vector<std::uint32_t> offsets;
  for (std::uint32_t i = 0; i < packets; ++i) offsets.push_back(i);
  for (const std::uint32_t restart : restarts)
    for (std::uint32_t i = restart; i < packets; ++i) offsets.push_back(i);
  return offsets;
}

class RequestMishap : public testing::TestWithParam<RequestCase> {};

TEST_P(RequestMishap, is_answered_as_the_rules_say) {
  const RequestCase& c = GetParam();
  FaultPair pair({.to_b = row(c.mishap, c.packet)});
  const Operation operation(pair, c.opcode, c.length);
  pair.run(kLongEnough);
  operation.check_done();
  const auto naks = pair.naks_sent_by(pair.b);
  const auto again = resent(pair, c.packets);
  EXPECT_EQ(pair.a.counters().retransmitted_packets, again.size());
  if (has_data_response(c.opcode)) {
    const std::uint32_t packets = c.opcode == WrOpcode::kRdmaRead ? 4 : 1;
    // What comes a second time, at once or late, is answered again (9.7.5.1.4).
    std::vector<std::uint32_t> restarts;
    if (c.mishap == Mishap::kDuplicate || c.mishap == Mishap::kDelay) restarts.push_back(0);
    EXPECT_EQ(answers(pair), answered_from(packets, restarts));
  }
  if (c.mishap == Mishap::kDuplicate) {
    EXPECT_TRUE(naks.empty());
    EXPECT_TRUE(again.empty());
    EXPECT_EQ(pair.b.counters().duplicate_request, 1u);
    return;
  }
  const SeenFrame last_of_first_round = pair.sent_by(pair.a).at(c.packets - 1);
  const bool leaves_a_gap = c.index + 1 < c.packets;
  ASSERT_FALSE(again.empty());
  if (leaves_a_gap) {
    ASSERT_EQ(naks.size(), 1u);
    EXPECT_EQ(naks[0].psn, psn_at(c.index));
    EXPECT_EQ(again[0].psn, psn_at(c.index));
    EXPECT_EQ(again.size(), c.packets - c.index);
    expect_at_once(pair, again[0], last_of_first_round);
  } else {
    EXPECT_TRUE(naks.empty());
    EXPECT_EQ(again[0].psn, psn_at(0));
    EXPECT_EQ(again.size(), c.packets);
    expect_by_timer(pair, again[0], last_of_first_round);
  }
  EXPECT_EQ(pair.b.counters().rx_icrc_encapsulated, c.mishap == Mishap::kCorrupt ? 1u : 0u);
  // What was late arrives after all, and is one duplicate more.
  const std::uint64_t resent_though_there = again.size() - (c.packets - c.index);
  EXPECT_EQ(pair.b.counters().duplicate_request, resent_though_there + (c.mishap == Mishap::kDelay ? 1 : 0));
}

INSTANTIATE_TEST_SUITE_P(Packets, RequestMishap, testing::ValuesIn(request_cases()), [](const auto& instance) {
  const RequestCase& c = instance.param;
  const bool with_imm = c.opcode == WrOpcode::kSendWithImm || c.opcode == WrOpcode::kRdmaWriteWithImm;
  return std::string(c.packet) + (with_imm ? "_of_imm_" : "_") + name_of(c.mishap);
});

// Answers: the packets that come back.

struct AnswerCase {
  WrOpcode opcode;
  const char* packet;
  std::uint32_t length;
  std::uint32_t index;    ///< of the packet among the responses
  std::uint32_t packets;  ///< responses
  Mishap mishap;
};

std::vector<AnswerCase> answer_cases() {
  std::vector<AnswerCase> cases;
  for (const Mishap mishap : {Mishap::kDrop, Mishap::kCorrupt, Mishap::kDelay, Mishap::kDuplicate}) {
    cases.push_back({WrOpcode::kRdmaRead, "RC_READ_RESP_FIRST", kFourPackets, 0, 4, mishap});
    cases.push_back({WrOpcode::kRdmaRead, "RC_READ_RESP_MIDDLE", kFourPackets, 1, 4, mishap});
    cases.push_back({WrOpcode::kRdmaRead, "RC_READ_RESP_LAST", kFourPackets, 3, 4, mishap});
    cases.push_back({WrOpcode::kRdmaRead, "RC_READ_RESP_ONLY", kOnePacket, 0, 1, mishap});
    cases.push_back({WrOpcode::kAtomicCmpSwp, "RC_ATOMIC_ACK", 8, 0, 1, mishap});
    cases.push_back({WrOpcode::kAtomicFetchAdd, "RC_ATOMIC_ACK", 8, 0, 1, mishap});
  }
  return cases;
}

class ResponseMishap : public testing::TestWithParam<AnswerCase> {};

TEST_P(ResponseMishap, is_asked_for_again_from_the_gap) {
  const AnswerCase& c = GetParam();
  FaultPair pair({.to_a = row(c.mishap, c.packet)});
  const Operation operation(pair, c.opcode, c.length);
  pair.run(kLongEnough);
  operation.check_done();
  const auto requests = pair.sent_by(pair.a);
  EXPECT_EQ(pair.a.counters().packet_seq_err, 0u);
  std::vector<std::uint32_t> restarts;
  if (c.mishap != Mishap::kDuplicate) restarts.push_back(c.index);
  EXPECT_EQ(answers(pair), answered_from(c.packets, restarts));
  if (c.mishap == Mishap::kDuplicate) {
    EXPECT_EQ(requests.size(), 1u);
    EXPECT_EQ(pair.a.counters().rx_ghost_acknowledge, 1u);
    return;
  }
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(requests[1].psn, psn_at(c.index));
  if (c.opcode == WrOpcode::kRdmaRead) {
    EXPECT_EQ(requests[1].dma_length, c.length - c.index * FaultPair::kMtu);
  }
  if (c.index + 1 < c.packets) {
    EXPECT_EQ(pair.a.counters().implied_nak_seq_err, 1u);
    expect_at_once(pair, requests[1], requests[0]);
  } else {
    EXPECT_EQ(pair.a.counters().implied_nak_seq_err, 0u);
    expect_by_timer(pair, requests[1], requests[0]);
  }
  if (c.mishap == Mishap::kDelay) {
    EXPECT_GE(pair.a.counters().rx_ghost_acknowledge, 1u);
  }
}

INSTANTIATE_TEST_SUITE_P(Packets, ResponseMishap, testing::ValuesIn(answer_cases()), [](const auto& instance) {
  const char* of = instance.param.opcode == WrOpcode::kAtomicCmpSwp     ? "_of_CMP_SWAP_"
                   : instance.param.opcode == WrOpcode::kAtomicFetchAdd ? "_of_FETCH_ADD_"
                                                                        : "_";
  return instance.param.packet + std::string(of) + name_of(instance.param.mishap);
});

class AcknowledgeMishap : public testing::TestWithParam<Mishap> {};

TEST_P(AcknowledgeMishap, ack__is_sent_again_for_the_message_sent_again) {
  FaultPair pair({.to_a = row(GetParam(), "ack")});
  const Operation operation(pair, WrOpcode::kRdmaWrite, kFourPackets);
  pair.run(kLongEnough);
  operation.check_done();
  EXPECT_EQ(pair.b.counters().rx_write_requests, 4u);
  const auto again = resent(pair, 4);
  if (GetParam() == Mishap::kDuplicate) {
    EXPECT_TRUE(again.empty());
    EXPECT_EQ(pair.a.counters().rx_ghost_acknowledge, 1u);
    return;
  }
  ASSERT_EQ(again.size(), 4u);
  EXPECT_EQ(again[0].psn, psn_at(0));
  expect_by_timer(pair, again[0], pair.sent_by(pair.a).at(3));
  EXPECT_EQ(pair.b.counters().duplicate_request, 4u);
  EXPECT_EQ(pair.b.counters().tx_acks, 2u);
}

TEST_P(AcknowledgeMishap, nak__is_sent_once_and_without_it_the_timer_decides) {
  FaultPair pair({.to_b = "drop nth=1 opcode=RC_WRITE_MIDDLE", .to_a = row(GetParam(), "nak")});
  const Operation operation(pair, WrOpcode::kRdmaWrite, kFourPackets);
  pair.run(kLongEnough);
  operation.check_done();
  // One NAK for one gap, whatever becomes of it (9.7.5.2.8).
  ASSERT_EQ(pair.naks_sent_by(pair.b).size(), 1u);
  EXPECT_EQ(pair.naks_sent_by(pair.b)[0].psn, psn_at(1));
  const auto again = resent(pair, 4);
  ASSERT_FALSE(again.empty());
  if (GetParam() == Mishap::kDuplicate) {
    EXPECT_EQ(again[0].psn, psn_at(1));
    EXPECT_EQ(again.size(), 3u);
    expect_at_once(pair, again[0], pair.sent_by(pair.a).at(3));
    return;
  }
  EXPECT_EQ(again[0].psn, psn_at(0));
  EXPECT_EQ(again.size(), 4u);
  expect_by_timer(pair, again[0], pair.sent_by(pair.a).at(3));
}

TEST_P(AcknowledgeMishap, rnr_nak__without_it_the_timer_decides) {
  FaultPair pair({.to_a = row(GetParam(), "rnr-nak")});
  pair.post(WrOpcode::kSend, kOnePacket);
  pair.run(microseconds(100));
  pair.post_receive(0, kOnePacket);
  pair.run(kLongEnough);
  ASSERT_EQ(pair.a.completions.size(), 1u);
  EXPECT_EQ(pair.a.completions[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.b.completions.size(), 1u);
  const auto again = resent(pair, 1);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(pair.b.counters().out_of_buffer, 1u);
  if (GetParam() == Mishap::kDuplicate) {
    // Timer code 12 is 0.64 ms (table 45).
    EXPECT_GE(again[0].at - pair.sent_by(pair.a)[0].at, microseconds(640));
    EXPECT_LT(again[0].at - pair.sent_by(pair.a)[0].at, milliseconds(2));
    return;
  }
  expect_by_timer(pair, again[0], pair.sent_by(pair.a)[0]);
}

INSTANTIATE_TEST_SUITE_P(Packets, AcknowledgeMishap,
                         testing::Values(Mishap::kDrop, Mishap::kCorrupt, Mishap::kDelay, Mishap::kDuplicate),
                         [](const auto& instance) { return name_of(instance.param); });

}  // namespace
}  // namespace roci::simtest
