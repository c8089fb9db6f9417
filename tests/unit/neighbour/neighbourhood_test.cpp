// Expected frames are written out by hand from RFC 826, RFC 792, RFC 4443 and RFC 4861; checksums were worked out with
// other software.
#include "stack/neighbour/neighbourhood.h"

#include <gtest/gtest.h>

#include <cctype>
#include <string>
#include <string_view>
#include <vector>

namespace roci {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::string_view hex) {
  Bytes out;
  std::string digits;
  for (const char c : hex)
    if (std::isxdigit(static_cast<unsigned char>(c)) != 0) digits += c;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return out;
}

constexpr MacAddress kOwnMac{{0x02, 0, 0xc6, 0x12, 0, 1}};
constexpr MacAddress kPeerMac{{0x02, 0, 0xc6, 0x12, 0, 2}};
constexpr IpAddress kOwn = IpAddress::v4(0xc612'0001);
constexpr IpAddress kPeer = IpAddress::v4(0xc612'0002);
constexpr IpAddress kOwn6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr IpAddress kPeer6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
constexpr Instant kStart{1};

class NeighbourhoodTest : public testing::Test {
 protected:
  Bytes sent() {
    const std::span<const std::byte> frame = hood.next_frame();
    return {frame.begin(), frame.end()};
  }
  bool take(std::string_view hex, Instant now = kStart) { return hood.take(bytes(hex), now); }

  Neighbourhood hood{kOwnMac, {kOwn, kOwn6}};
};

constexpr const char* kArpRequestForOwn =
    "ffffffffffff 0200c6120002 0806  0001 0800 06 04 0001  0200c6120002 c6120002  000000000000 c6120001";
constexpr const char* kArpReplyOfPeer =
    "0200c6120001 0200c6120002 0806  0001 0800 06 04 0002  0200c6120002 c6120002  0200c6120001 c6120001";

TEST_F(NeighbourhoodTest, take__an_arp_request_for_the_port_is_answered) {
  EXPECT_TRUE(take(kArpRequestForOwn));
  EXPECT_EQ(sent(), bytes("0200c6120002 0200c6120001 0806  0001 0800 06 04 0002"
                          "0200c6120001 c6120001  0200c6120002 c6120002"));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(hood.counters().arp, 1u);
}

TEST_F(NeighbourhoodTest, take__an_arp_request_for_another_is_not) {
  EXPECT_TRUE(
      take("ffffffffffff 0200c6120002 0806  0001 0800 06 04 0001  0200c6120002 c6120002  000000000000 c6120009"));
  EXPECT_TRUE(sent().empty());
}

TEST_F(NeighbourhoodTest, find__asks_and_takes_the_answer) {
  EXPECT_EQ(hood.find(kPeer, kStart), std::nullopt);
  EXPECT_EQ(sent(), bytes("ffffffffffff 0200c6120001 0806  0001 0800 06 04 0001"
                          "0200c6120001 c6120001  000000000000 c6120002"));
  EXPECT_FALSE(hood.take_change());
  EXPECT_TRUE(take(kArpReplyOfPeer));
  EXPECT_TRUE(hood.take_change());
  EXPECT_EQ(hood.find(kPeer, kStart), kPeerMac);
  EXPECT_TRUE(sent().empty());
}

TEST_F(NeighbourhoodTest, take__nobody_is_remembered_who_was_not_asked_for) {
  EXPECT_TRUE(take(kArpRequestForOwn));
  EXPECT_EQ(hood.next_deadline(), kNever);
  EXPECT_FALSE(hood.take_change());
}

TEST_F(NeighbourhoodTest, on_deadline__asks_again_each_second_and_then_less_often) {
  hood.find(kPeer, kStart);
  EXPECT_FALSE(sent().empty());
  for (int second = 1; second <= 3; ++second) {
    EXPECT_EQ(hood.next_deadline(), kStart + seconds(second));
    hood.on_deadline(hood.next_deadline());
    EXPECT_FALSE(sent().empty());
  }
  EXPECT_EQ(hood.next_deadline(), kStart + seconds(5));
}

TEST_F(NeighbourhoodTest, on_deadline__a_neighbour_that_falls_silent_is_asked_then_lost) {
  hood.find(kPeer, kStart);
  sent();
  take(kArpReplyOfPeer);
  hood.take_change();
  EXPECT_EQ(hood.next_deadline(), kStart + seconds(30));
  for (int probe = 0; probe < 3; ++probe) {
    hood.on_deadline(kStart + seconds(30 + probe));
    EXPECT_EQ(sent(), bytes("0200c6120002 0200c6120001 0806  0001 0800 06 04 0001"
                            "0200c6120001 c6120001  000000000000 c6120002"));
    EXPECT_EQ(hood.find(kPeer, kStart + seconds(30 + probe)), kPeerMac);
  }
  EXPECT_FALSE(hood.take_change());
  hood.on_deadline(kStart + seconds(33));
  EXPECT_TRUE(hood.take_change());
  EXPECT_EQ(hood.find(kPeer, kStart + seconds(33)), std::nullopt);
}

TEST_F(NeighbourhoodTest, take__a_neighbour_that_answers_stays) {
  hood.find(kPeer, kStart);
  take(kArpReplyOfPeer);
  hood.on_deadline(kStart + seconds(30));
  take(kArpReplyOfPeer, kStart + seconds(30));
  EXPECT_EQ(hood.next_deadline(), kStart + seconds(60));
}

TEST_F(NeighbourhoodTest, take__a_neighbour_that_moves_is_followed) {
  hood.find(kPeer, kStart);
  take(kArpReplyOfPeer);
  hood.take_change();
  take("ffffffffffff 0200c6120077 0806  0001 0800 06 04 0001  0200c6120077 c6120002  000000000000 c6120002");
  EXPECT_TRUE(hood.take_change());
  EXPECT_EQ(hood.find(kPeer, kStart), (MacAddress{{0x02, 0, 0xc6, 0x12, 0, 0x77}}));
}

TEST_F(NeighbourhoodTest, take__another_with_the_port_s_address_is_counted) {
  take("ffffffffffff 0200c6120077 0806  0001 0800 06 04 0001  0200c6120077 c6120001  000000000000 c6120001");
  EXPECT_EQ(hood.counters().conflicts, 1u);
}

TEST_F(NeighbourhoodTest, take__malformed_arp_is_counted_and_harmless) {
  EXPECT_TRUE(take("ffffffffffff 0200c6120002 0806  0001 0800 06 04 0001  0200c6120002"));
  EXPECT_TRUE(
      take("ffffffffffff 0200c6120002 0806  0006 0800 06 04 0001  0200c6120002 c6120002  000000000000 c6120001"));
  EXPECT_EQ(hood.counters().malformed, 2u);
  EXPECT_TRUE(sent().empty());
}

TEST_F(NeighbourhoodTest, take__a_storm_of_requests_fills_nothing) {
  for (int i = 0; i < 1000; ++i) take(kArpRequestForOwn);
  int answers = 0;
  while (!sent().empty()) ++answers;
  EXPECT_EQ(answers, 64);
  EXPECT_EQ(hood.counters().arp, 1000u);
  EXPECT_EQ(hood.counters().answer_drops, 936u);
}

TEST_F(NeighbourhoodTest, take__ping_is_answered) {
  EXPECT_TRUE(
      take("0200c6120001 0200c6120002 0800"
           "4500 0024 1234 0000 4001 dc7d c6120002 c6120001"
           "0800 a6a8 0001 0002 0102 0304 4d4e 0000"
           "0000"));  // padding of Ethernet's
  const Bytes reply = sent();
  ASSERT_EQ(reply.size(), 50u);
  EXPECT_EQ(Bytes(reply.begin(), reply.begin() + 14), bytes("0200c6120002 0200c6120001 0800"));
  EXPECT_EQ(Bytes(reply.begin() + 26, reply.end()),
            bytes("c6120001 c6120002  0000 aea8 0001 0002 0102 0304 4d4e 0000"));
  EXPECT_EQ(ipv4_header_sum(reply.data() + 14), 0xffff);
}

TEST_F(NeighbourhoodTest, take__ping_with_a_wrong_checksum_is_not) {
  EXPECT_TRUE(
      take("0200c6120001 0200c6120002 0800"
           "4500 0024 1234 0000 4001 dc7d c6120002 c6120001"
           "0800 a6ab 0001 0002 0102 0304 4d4e 0000"));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(hood.counters().malformed, 1u);
}

TEST_F(NeighbourhoodTest, take__udp_is_left_to_others) {
  EXPECT_FALSE(
      take("0200c6120001 0200c6120002 0800"
           "4500 001c 1234 0000 4011 dc75 c6120002 c6120001 12b7 12b7 0008 0000"));
}

TEST_F(NeighbourhoodTest, find__asks_the_solicited_node_group_over_ipv6) {
  EXPECT_EQ(hood.find(kPeer6, kStart), std::nullopt);
  EXPECT_EQ(sent(), bytes("3333ff000002 0200c6120001 86dd"
                          "60000000 0020 3a ff fd000000000000000000000000000001 ff0200000000000000000001ff000002"
                          "8700 b784 00000000 fd000000000000000000000000000002  01 01 0200c6120001"));
}

TEST_F(NeighbourhoodTest, take__a_solicitation_is_answered_and_the_advertisement_of_a_peer_taken) {
  EXPECT_TRUE(
      take("3333ff000001 0200c6120002 86dd"
           "60000000 0020 3a ff fd000000000000000000000000000002 ff0200000000000000000001ff000001"
           "8700 b784 00000000 fd000000000000000000000000000001  01 01 0200c6120002"));
  EXPECT_EQ(sent(), bytes("0200c6120002 0200c6120001 86dd"
                          "60000000 0020 3a ff fd000000000000000000000000000001 fd000000000000000000000000000002"
                          "8800 5689 60000000 fd000000000000000000000000000001  02 01 0200c6120001"));
  hood.find(kPeer6, kStart);
  EXPECT_TRUE(
      take("0200c6120001 0200c6120002 86dd"
           "60000000 0020 3a ff fd000000000000000000000000000002 fd000000000000000000000000000001"
           "8800 5687 60000000 fd000000000000000000000000000002  02 01 0200c6120002"));
  EXPECT_EQ(hood.find(kPeer6, kStart), kPeerMac);
}

TEST_F(NeighbourhoodTest, take__neighbour_discovery_from_beyond_a_router_is_refused) {
  EXPECT_TRUE(
      take("3333ff000001 0200c6120002 86dd"
           "60000000 0020 3a fe fd000000000000000000000000000002 ff0200000000000000000001ff000001"
           "8700 b784 00000000 fd000000000000000000000000000001  01 01 0200c6120002"));
  EXPECT_TRUE(sent().empty());
  EXPECT_EQ(hood.counters().malformed, 1u);
}

TEST_F(NeighbourhoodTest, announce__tells_all_of_each_address) {
  hood.announce();
  EXPECT_EQ(sent(), bytes("ffffffffffff 0200c6120001 0806  0001 0800 06 04 0001"
                          "0200c6120001 c6120001  000000000000 c6120001"));
  const Bytes advertisement = sent();
  ASSERT_EQ(advertisement.size(), 86u);
  EXPECT_EQ(Bytes(advertisement.begin(), advertisement.begin() + 14), bytes("333300000001 0200c6120001 86dd"));
  EXPECT_TRUE(sent().empty());
}

}  // namespace
}  // namespace roci
