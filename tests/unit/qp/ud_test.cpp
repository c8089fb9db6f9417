// UD between two whole stacks: where the header goes, who is let in, multicast, and address handles.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::Host;
using Log = std::vector<std::string>;

constexpr std::uint32_t kQkey = 0x11111111;
/// What precedes the payload (IBTA 11.4.1.2).
constexpr std::size_t kGrhBytes = 40;

struct UdPair : test::WirePair {
  UdPair() : WirePair(defaults(), {}, QpType::kUd) { ah = make_ah({.dgid = address_of(b, 0)}); }
  ~UdPair() {
    for (AddressHandle* made : handles) a.device->destroy_ah(made);
  }

  static IpAddress address_of(const Host& host, std::size_t index) { return host.port.attributes().addresses[index]; }
  AddressHandle* make_ah(const AddressVector& av) {
    AddressHandle* made = nullptr;
    EXPECT_EQ(a.device->create_ah(a.pd, av, &made), 0);
    handles.push_back(made);
    return made;
  }
  SendRequest datagram(const Sge& out) {
    return {
        .flags = kSendSignaled, .num_sge = 1, .sges = &out, .ah = ah, .remote_qpn = b.qp->qpn(), .remote_qkey = kQkey};
  }
  void send(std::uint32_t length) {
    const Sge out = a.sge(0, length);
    a.post(datagram(out));
  }

  std::vector<AddressHandle*> handles;
  AddressHandle* ah = nullptr;
};

TEST(Ud, send__ipv4_header_lies_in_the_second_half_of_the_forty_bytes) {
  UdPair pair;
  pair.a.memory[0] = std::byte{0x77};
  pair.b.post_receive(7, pair.b.sge(0, 200));
  Frame sent;
  pair.send(100);
  pair.run([&](Frame& frame) {
    sent = frame;
    return true;
  });
  EXPECT_EQ(pair.log, Log{"> UD_SEND_ONLY psn=100"});
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].byte_len, kGrhBytes + 100);
  EXPECT_EQ(received[0].flags, kWcGrh);
  EXPECT_EQ(received[0].src_qpn, pair.a.qp->qpn());
  EXPECT_EQ(received[0].qpn, pair.b.qp->qpn());
  // The network header's type is told as mlx5 tells it: 2 is IPv4.
  EXPECT_EQ(received[0].sl, 2);
  EXPECT_TRUE(std::equal(sent.begin() + 14, sent.begin() + 34, pair.b.memory.begin() + 20));
  EXPECT_EQ(pair.b.memory[kGrhBytes], std::byte{0x77});
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 1u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
}

TEST(Ud, send__ipv6_header_fills_the_forty_bytes) {
  UdPair pair;
  pair.ah = pair.make_ah(
      {.dgid = UdPair::address_of(pair.b, 1), .flow_label = 0x12345, .sgid_index = 1, .traffic_class = 0x62});
  pair.b.post_receive(7, pair.b.sge(0, 200));
  Frame sent;
  const Sge out = pair.a.sge(0, 30);
  SendRequest request = pair.datagram(out);
  request.opcode = WrOpcode::kSendWithImm;
  request.imm_or_rkey = 0xcafe;
  pair.a.post(request);
  pair.run([&](Frame& frame) {
    sent = frame;
    return true;
  });
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 1u);
  EXPECT_EQ(received[0].sl, 1);
  EXPECT_EQ(received[0].flags, kWcGrh | kWcWithImm);
  EXPECT_EQ(received[0].imm_or_rkey, 0xcafeu);
  EXPECT_TRUE(std::equal(sent.begin() + 14, sent.begin() + 54, pair.b.memory.begin()));
  // Version 6, the traffic class, the flow label (RFC 8200, section 3).
  EXPECT_EQ(load_be<std::uint32_t>(sent.data() + 14), 0x66212345u);
}

TEST(Ud, q_key__that_is_not_the_receivers_drops_the_datagram) {
  UdPair pair;
  pair.b.post_receive(7, pair.b.sge(0, 200));
  const Sge out = pair.a.sge(0, 8);
  SendRequest request = pair.datagram(out);
  request.remote_qkey = kQkey + 1;
  pair.a.post(request);
  pair.run();
  EXPECT_TRUE(pair.b.completions().empty());
  EXPECT_EQ(pair.b.counters.rx_bad_qkey, 1u);
}

// IBTA 10.2.5: a Q_Key with its high bit set stands for the sender's own.
TEST(Ud, q_key__with_the_high_bit_is_replaced_by_the_qps_own) {
  UdPair pair;
  pair.b.post_receive(7, pair.b.sge(0, 200));
  const Sge out = pair.a.sge(0, 8);
  SendRequest request = pair.datagram(out);
  request.remote_qkey = 0x80000123;
  pair.a.post(request);
  pair.run();
  EXPECT_EQ(pair.b.completions().size(), 1u);
}

TEST(Ud, destination__that_is_no_address_of_the_port_is_dropped) {
  UdPair pair;
  pair.ah = pair.make_ah({.dgid = IpAddress::v4(0xc6120063)});
  pair.b.post_receive(7, pair.b.sge(0, 200));
  pair.send(8);
  pair.run();
  EXPECT_TRUE(pair.b.completions().empty());
  EXPECT_EQ(pair.b.counters.rx_wrong_destination, 1u);
}

TEST(Ud, receive__that_is_missing_or_too_short_drops_the_datagram) {
  UdPair pair;
  pair.send(100);
  pair.run();
  EXPECT_EQ(pair.b.counters.out_of_buffer, 1u);
  pair.b.post_receive(7, pair.b.sge(0, kGrhBytes + 99));
  pair.send(100);
  pair.run();
  EXPECT_EQ(pair.b.counters.resp_local_length_error, 1u);
  EXPECT_TRUE(pair.b.completions().empty());
  pair.send(99);
  pair.run();
  EXPECT_EQ(pair.b.completions().size(), 1u);
  EXPECT_EQ(pair.b.qp->state(), QpState::kRts);
}

// IBTA C10-93.1.1: no packet leaves, and no error is told.
TEST(Ud, send__longer_than_the_mtu_is_not_sent) {
  UdPair pair;
  pair.send(4097);
  pair.send(4096);
  pair.b.post_receive(7, pair.b.sge(0, 5000));
  pair.run();
  EXPECT_EQ(pair.log.size(), 1u);
  EXPECT_EQ(pair.b.completions().size(), 1u);
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, WcStatus::kSuccess);
  EXPECT_EQ(pair.a.counters.ud_oversized_sends, 1u);
}

TEST(Ud, send__from_memory_that_is_not_registered_stops_the_send_queue_only) {
  UdPair pair;
  Sge bad = pair.a.sge(0, 8);
  bad.lkey = LKey{bad.lkey.value ^ 0x10000};
  const Sge good = pair.a.sge(0, 8);
  ASSERT_EQ(pair.a.device->post_send(pair.a.qp, pair.datagram(bad)), 0);
  pair.a.post(pair.datagram(good));
  pair.run();
  const auto done = pair.a.completions();
  ASSERT_EQ(done.size(), 2u);
  EXPECT_EQ(done[0].status, WcStatus::kLocProtErr);
  EXPECT_EQ(done[1].status, WcStatus::kWrFlushErr);
  EXPECT_EQ(pair.a.qp->state(), QpState::kSqe);
  // What is posted now is flushed too; from RTS on it is sent (IBTA 10.3.1.6).
  pair.a.post(pair.datagram(good));
  pair.run();
  const auto flushed = pair.a.completions();
  ASSERT_EQ(flushed.size(), 1u);
  EXPECT_EQ(flushed[0].status, WcStatus::kWrFlushErr);
  EXPECT_TRUE(pair.log.empty());
  ASSERT_EQ(pair.a.device->modify_qp(pair.a.qp, {.state = QpState::kRts}, kQpStateAttr), 0);
  pair.b.post_receive(7, pair.b.sge(0, 100));
  pair.a.post(pair.datagram(good));
  pair.run();
  EXPECT_EQ(pair.b.completions().size(), 1u);
}

TEST(Ud, posting__needs_an_address_of_the_same_domain_and_a_send) {
  UdPair pair;
  const Sge out = pair.a.sge(0, 8);
  SendRequest request = pair.datagram(out);
  request.ah = nullptr;
  EXPECT_EQ(pair.a.device->post_send(pair.a.qp, request), EINVAL);
  request = pair.datagram(out);
  request.opcode = WrOpcode::kRdmaWrite;
  EXPECT_EQ(pair.a.device->post_send(pair.a.qp, request), EINVAL);
  Pd* other = nullptr;
  ASSERT_EQ(pair.a.device->alloc_pd(&other), 0);
  AddressHandle* foreign = nullptr;
  ASSERT_EQ(pair.a.device->create_ah(other, {.dgid = UdPair::address_of(pair.b, 0)}, &foreign), 0);
  request = pair.datagram(out);
  request.ah = foreign;
  EXPECT_EQ(pair.a.device->post_send(pair.a.qp, request), EINVAL);
  EXPECT_EQ(foreign->posted.load(), 0u);
  EXPECT_EQ(pair.a.device->destroy_ah(foreign), 0);
  EXPECT_EQ(pair.a.device->dealloc_pd(other), 0);
}

TEST(Ud, address_handle__destroyed_after_posting_is_used_and_then_gone) {
  UdPair pair;
  const int routes = pair.a.port.routes_in_use;
  AddressHandle* brief = nullptr;
  ASSERT_EQ(pair.a.device->create_ah(pair.a.pd, {.dgid = UdPair::address_of(pair.b, 0)}, &brief), 0);
  pair.b.post_receive(7, pair.b.sge(0, 100));
  const Sge out = pair.a.sge(0, 8);
  SendRequest request = pair.datagram(out);
  request.ah = brief;
  pair.a.post(request);
  EXPECT_EQ(pair.a.device->destroy_ah(brief), 0);
  EXPECT_GT(pair.a.port.routes_in_use, routes);
  pair.run();
  EXPECT_EQ(pair.b.completions().size(), 1u);
  // The pair's own handle has found the way to the peer's block of QPNs by now or not: the brief one holds none.
  pair.send(8);
  pair.run();
  pair.a.device->active_mtu();
  const int with_own = pair.a.port.routes_in_use;
  pair.send(8);
  pair.run();
  EXPECT_EQ(pair.a.port.routes_in_use, with_own);
  EXPECT_LE(with_own, routes + 1);
}

TEST(Ud, reset__lets_go_of_address_handles) {
  UdPair pair;
  const Sge out = pair.a.sge(0, 8);
  ASSERT_EQ(pair.a.device->post_send(pair.a.qp, pair.datagram(out)), 0);
  EXPECT_EQ(pair.ah->posted.load(), 1u);
  ASSERT_EQ(pair.a.device->modify_qp(pair.a.qp, {.state = QpState::kReset}, kQpStateAttr), 0);
  EXPECT_EQ(pair.ah->posted.load(), 0u);
}

TEST(Ud, datagrams_to_two_peers__leave_in_order_each_on_its_own_way) {
  UdPair pair;
  AddressHandle* const v4 = pair.ah;
  AddressHandle* const v6 = pair.make_ah({.dgid = UdPair::address_of(pair.b, 1), .sgid_index = 1});
  for (std::uint64_t i = 0; i < 6; ++i) pair.b.post_receive(i, pair.b.sge(100 * i, 100));
  for (int i = 0; i < 6; ++i) {
    pair.ah = i % 2 == 0 ? v4 : v6;
    pair.send(8);
  }
  std::string versions;
  pair.run([&](Frame& frame) {
    versions += load_be<std::uint16_t>(frame.data() + 12) == kEtherTypeIpv4 ? '4' : '6';
    return true;
  });
  EXPECT_EQ(versions, "464646");
  EXPECT_EQ(pair.b.completions().size(), 6u);
}

struct GroupPair : UdPair {
  static constexpr IpAddress kGroup{{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 239, 129, 2, 3}};

  GroupPair() { ah = make_ah({.dgid = kGroup}); }
  void send_to_group() {
    const Sge out = a.sge(0, 8);
    SendRequest request = datagram(out);
    request.remote_qpn = kMulticastQpn;
    a.post(request);
    run();
  }
};

TEST(Multicast, every_attached_qp_gets_a_copy) {
  GroupPair pair;
  Qp* const first = pair.b.qp;
  pair.b.create_qp(QpType::kUd);
  pair.b.bring_up_datagrams(GroupPair::defaults());
  Qp* const second = pair.b.qp;
  Device& device = *pair.b.device;
  const std::array<Sge, 2> elements{pair.b.sge(0, 100), pair.b.sge(100, 100)};
  ASSERT_EQ(device.post_recv(first, {.wr_id = 1, .num_sge = 1, .sges = &elements[0]}), 0);
  ASSERT_EQ(device.post_recv(second, {.wr_id = 2, .num_sge = 1, .sges = &elements[1]}), 0);
  EXPECT_EQ(device.attach_mcast(first, GroupPair::kGroup), 0);
  EXPECT_EQ(device.attach_mcast(second, GroupPair::kGroup), 0);
  EXPECT_EQ(device.attach_mcast(second, GroupPair::kGroup), 0);
  EXPECT_EQ(pair.b.port.groups, std::vector<IpAddress>{GroupPair::kGroup});
  pair.send_to_group();
  const auto received = pair.b.completions();
  ASSERT_EQ(received.size(), 2u);
  EXPECT_EQ(received[0].wr_id + received[1].wr_id, 3u);
  EXPECT_EQ(device.detach_mcast(first, GroupPair::kGroup), 0);
  EXPECT_EQ(device.detach_mcast(first, GroupPair::kGroup), EINVAL);
  EXPECT_EQ(pair.b.port.groups.size(), 1u);
  EXPECT_EQ(device.destroy_qp(first), 0);
  // The last one leaves by being destroyed.
  EXPECT_EQ(device.destroy_qp(std::exchange(pair.b.qp, nullptr)), 0);
  EXPECT_TRUE(pair.b.port.groups.empty());
}

TEST(Multicast, without_anybody_attached_a_datagram_is_dropped) {
  GroupPair pair;
  pair.b.post_receive(7, pair.b.sge(0, 100));
  pair.send_to_group();
  EXPECT_TRUE(pair.b.completions().empty());
  EXPECT_EQ(pair.b.counters.rx_no_group, 1u);
}

TEST(Multicast, attach__is_for_datagrams_and_groups_only) {
  GroupPair pair;
  EXPECT_EQ(pair.b.device->attach_mcast(pair.b.qp, IpAddress::v4(0xc6120001)), EINVAL);
  test::WirePair connected;
  EXPECT_EQ(connected.b.device->attach_mcast(connected.b.qp, GroupPair::kGroup), EINVAL);
}

// RFC 1112, section 6.4 has 224.128.64.32 as its kind of example; RFC 2464, section 7.
TEST(Multicast, mac_of_a_group__is_mapped_from_its_address) {
  EXPECT_EQ(multicast_mac(IpAddress::v4(0xe0804020)), (MacAddress{{0x01, 0x00, 0x5e, 0x00, 0x40, 0x20}}));
  EXPECT_EQ(multicast_mac(IpAddress::v4(0xefff0203)), (MacAddress{{0x01, 0x00, 0x5e, 0x7f, 0x02, 0x03}}));
  EXPECT_EQ(multicast_mac(IpAddress{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 1, 2, 3}}),
            (MacAddress{{0x33, 0x33, 0xff, 0x01, 0x02, 0x03}}));
}

}  // namespace
}  // namespace roci
