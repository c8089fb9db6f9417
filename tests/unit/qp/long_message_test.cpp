// The longest message in the smallest packets: 2^31 bytes (IBTA 9.4.1) at 256 bytes each fill half of the PSN space, so
// that what follows it is as far from its first packet as numbers can tell.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "stack/wire/icrc.h"
#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::WirePair;

constexpr std::uint32_t kElementBytes = 1u << 29;
constexpr std::uint32_t kPackets = 1u << 23;

/// A frame as an answer to another packet.
Frame with_psn(Frame frame, Psn psn) {
  constexpr std::size_t kL3Offset = EthernetHeader::kSize;
  constexpr std::size_t kPsnOffset = kL3Offset + Ipv4Header::kSize + UdpHeader::kSize + 9;
  store_be24(frame.data() + kPsnOffset, psn.value());
  const std::size_t end = frame.size() - sizeof(std::uint32_t);
  store_icrc(frame.data() + end,
             compute_icrc(frame.data() + kL3Offset, true, static_cast<std::uint32_t>(end - kL3Offset)));
  return frame;
}

/// Takes what `host` sends, `packets` in all, and acknowledges all of it but the last half of a window.
void send_and_acknowledge(test::Host& host, const Frame& ack, Psn first, std::uint32_t packets) {
  const std::uint32_t half_window = WindowPolicy{}.packets / 2;
  std::uint32_t sent = 0;
  while (sent < packets) {
    host.device->worker().turn(Instant{1'000'000}, TurnReason::kPoll);
    ASSERT_FALSE(host.port.sent.empty());
    sent += static_cast<std::uint32_t>(host.port.sent.size());
    host.port.sent.clear();
    if (sent > half_window && sent < packets)
      host.port.arrived.push_back(with_psn(ack, first + (sent - half_window - 1)));
  }
}

TEST(LongMessage, write__is_complete_when_only_a_message_after_it_is_acknowledged) {
  QpAttr attr = WirePair::defaults();
  attr.path_mtu = 1;
  attr.timeout = 0;
  WirePair pair(attr);
  test::Host& a = pair.a;
  // Any ACK will do as a pattern.
  const Sge small = a.sge(0, 8);
  const SendRequest tail{.wr_id = 2,
                         .opcode = WrOpcode::kRdmaWrite,
                         .flags = kSendSignaled,
                         .num_sge = 1,
                         .sges = &small,
                         .remote_addr = pair.b.address(0),
                         .rkey = RKey{pair.b.mr->key}};
  a.post(tail);
  Frame ack;
  pair.run([&ack](Frame& frame) {
    if (test::describe(frame).starts_with("RC_ACK")) ack = frame;
    return true;
  });
  ASSERT_EQ(a.completions().size(), 1u);

  // Pages that were never written are all the same one.
  void* pages = mmap(nullptr, kElementBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  Mr* mr = nullptr;
  ASSERT_EQ(a.device->reg_mr(a.pd, pages, kElementBytes, reinterpret_cast<std::uint64_t>(pages), 0, &mr), 0);
  const std::vector<Sge> elements(4, {reinterpret_cast<std::uint64_t>(pages), kElementBytes, LKey{mr->key}});
  a.post({.wr_id = 1, .opcode = WrOpcode::kRdmaWrite, .flags = kSendSignaled, .num_sge = 4, .sges = elements.data()});
  a.post(tail);
  a.post(tail);

  const Psn first = Psn(101);
  send_and_acknowledge(a, ack, first, kPackets + 2);
  EXPECT_TRUE(a.completions().empty());
  a.port.arrived.push_back(with_psn(ack, first + (kPackets + 1)));
  a.device->worker().turn(Instant{1'000'000}, TurnReason::kPoll);
  const std::vector<Cqe> completions = a.completions();
  ASSERT_EQ(completions.size(), 3u);
  EXPECT_EQ(completions[0].wr_id, 1u);
  EXPECT_EQ(completions[2].status, WcStatus::kSuccess);

  a.device->dereg_mr(mr);
  munmap(pages, kElementBytes);
}

}  // namespace
}  // namespace roci
