#include "stack/cm/connection_manager.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <vector>

#include "stack/cm/messages.h"
#include "tests/support/seed.h"
#include "tests/unit/cm/mad_network.h"

namespace roci::cm {
namespace {

namespace layout = cm_layout;

constexpr Duration kOneWay = microseconds(10);
/// IBTA 12.7: 4.096 us x 2^n.
constexpr Duration ib_time(unsigned n) { return nanoseconds(std::int64_t{4096} << n); }

std::vector<EventType> types_of(const std::vector<SeenEvent>& events) {
  std::vector<EventType> types;
  for (const SeenEvent& event : events) types.push_back(event.type);
  return types;
}

std::vector<CmAttribute> attributes_of(const std::vector<Mad>& mads) {
  std::vector<CmAttribute> attributes;
  for (const Mad& mad : mads) attributes.push_back(cm_attribute(mad));
  return attributes;
}

std::vector<std::byte> numbered(std::size_t size) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(i + 1);
  return data;
}

/// Programs that accept what is asked, say yes to what is answered, and hang up when the other has.
void answer_everything(MadNetwork& network) {
  network.on_event = [&network](std::size_t end, const SeenEvent& event) {
    ConnectionManager& manager = network.manager(end);
    int error = 0;
    if (event.type == EventType::kRequest)
      error = manager.accept(*event.connection, kServerParameters, {}, network.now());
    else if (event.type == EventType::kReply)
      error = manager.establish(*event.connection);
    else if (event.type == EventType::kDisconnected && event.connection->state == State::kDreqReceived)
      error = manager.disconnect(*event.connection, network.now());
    EXPECT_EQ(error, 0);
  };
}

/// The first events of a connection that went well, as either side sees them.
const std::vector<EventType> kActiveLife{EventType::kReply};
const std::vector<EventType> kPassiveLife{EventType::kRequest, EventType::kEstablished};

TEST(ConnectionManager, connection__is_made_with_three_messages_and_ended_with_two) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(0)), kActiveLife);
  ASSERT_EQ(types_of(network.events(1)), kPassiveLife);
  Connection* server = network.events(1)[0].connection;
  EXPECT_EQ(client->state, State::kEstablished);
  EXPECT_EQ(server->state, State::kEstablished);
  // Each side knows the other's QP, the PSN that it starts with, and its own limits.
  EXPECT_EQ(client->peer.qpn, Qpn{0x222});
  EXPECT_EQ(server->peer.qpn, Qpn{0x111});
  EXPECT_EQ(client->peer.starting_psn, server->own.starting_psn);
  EXPECT_EQ(server->peer.starting_psn, client->own.starting_psn);
  EXPECT_EQ(client->own.initiator_depth, 2);
  EXPECT_EQ(client->own.responder_resources, 3);
  EXPECT_EQ(server->remote, client->local);

  ASSERT_EQ(network.manager(0).disconnect(*client, network.now()), 0);
  network.run_for(milliseconds(1));
  EXPECT_EQ(client->state, State::kTimewait);
  EXPECT_EQ(server->state, State::kTimewait);
  using enum CmAttribute;
  EXPECT_EQ(attributes_of(network.sent()), (std::vector{kReq, kRep, kRtu, kDreq, kDrep}));
  // Packets of the path live half as long as the ACK timeout.
  network.run_for(ib_time(kDefaultAckTimeout - 1));
  EXPECT_EQ(network.events(0).back().type, EventType::kTimewaitExit);
  EXPECT_EQ(network.events(1).back().type, EventType::kTimewaitExit);
  EXPECT_EQ(client->state, State::kIdle);
}

TEST(ConnectionManager, private_data__goes_over_to_the_last_byte_and_not_beyond) {
  MadNetwork network;
  network.listen();
  EXPECT_EQ(network.connect(numbered(57)), nullptr);
  Connection* client = network.connect(numbered(56));
  ASSERT_NE(client, nullptr);
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(1)), std::vector{EventType::kRequest});
  EXPECT_EQ(network.events(1)[0].data, numbered(56));
  Connection* server = network.events(1)[0].connection;
  EXPECT_EQ(network.manager(1).accept(*server, kServerParameters, numbered(197), network.now()), EINVAL);
  EXPECT_EQ(network.manager(1).accept(*server, kServerParameters, numbered(196), network.now()), 0);
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(0)), kActiveLife);
  EXPECT_EQ(network.events(0)[0].data, numbered(196));
}

TEST(ConnectionManager, reject__tells_why_with_148_bytes) {
  MadNetwork network;
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(1));
  Connection* server = network.events(1)[0].connection;
  EXPECT_EQ(network.manager(1).reject(*server, RejectReason::kConsumer, numbered(149)), EINVAL);
  EXPECT_EQ(network.manager(1).reject(*server, RejectReason::kConsumer, numbered(148)), 0);
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kRejected});
  EXPECT_EQ(network.events(0)[0].status, 28u);  // IBTA table 107: consumer reject
  EXPECT_EQ(network.events(0)[0].data, numbered(148));
  EXPECT_EQ(client->state, State::kIdle);
}

TEST(ConnectionManager, nobody_listens__is_told_with_reason_8) {
  MadNetwork network;
  network.connect();
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kRejected});
  EXPECT_EQ(network.events(0)[0].status, 8u);
}

TEST(ConnectionManager, program_that_listens_again_at_once__finds_those_who_asked_meanwhile) {
  MadNetwork network;
  Connection* listener = network.listen();
  network.manager(1).destroy(*listener, network.now());
  network.connect();
  network.run_for(milliseconds(100));
  EXPECT_TRUE(network.events(0).empty());
  network.listen();
  EXPECT_EQ(types_of(network.events(1)), std::vector{EventType::kRequest});

  // But nobody waits for long.
  MadNetwork other;
  listener = other.listen();
  other.manager(1).destroy(*listener, other.now());
  other.connect();
  other.run_for(milliseconds(501));
  ASSERT_EQ(types_of(other.events(0)), std::vector{EventType::kRejected});
  EXPECT_EQ(other.events(0)[0].status, 8u);
}

TEST(ConnectionManager, service_that_answered_lately__is_asked_again_when_nobody_listens) {
  MadNetwork network;
  answer_everything(network);
  Connection* listener = network.listen();
  network.connect();
  network.run_for(milliseconds(1));
  network.manager(1).destroy(*listener, network.now());
  network.run_for(seconds(1));
  network.connect({}, 0x112);
  network.run_for(seconds(1));
  EXPECT_EQ(types_of(network.events(0)), kActiveLife);
  network.listen();
  network.run_for(seconds(1));
  EXPECT_EQ(types_of(network.events(0)), (std::vector{EventType::kReply, EventType::kReply}));
}

TEST(ConnectionManager, no_room_for_a_request__refuses_it_and_keeps_nothing) {
  MadNetwork network;
  network.listen();
  network.set_backlog(1);
  network.connect({}, 1);
  network.connect({}, 2);
  network.run_for(milliseconds(1));
  EXPECT_EQ(types_of(network.events(1)), std::vector{EventType::kRequest});
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kRejected});
  EXPECT_EQ(network.events(0)[0].status, 28u);
  EXPECT_EQ(network.manager(1).connection_count(), 2u);  // the listener, and the one that was let in
}

TEST(ConnectionManager, path_mtu_beyond_the_ports__is_refused_with_reason_26) {
  MadNetwork network;
  network.listen();
  Connection* client = network.make_bound(0, PortSpace::kTcp, 0);
  network.manager(0).set_route(*client, network.address(0), {network.address(1), 7000});
  network.manager(0).connect(*client, {.qpn = Qpn{1}}, {.path_mtu = 5}, {}, network.now());
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kRejected});
  EXPECT_EQ(network.events(0)[0].status, 26u);
}

TEST(ConnectionManager, no_answer__is_asked_for_16_times_and_then_given_up) {
  MadNetwork network;
  network.set_fate([](const Mad&) { return std::vector<Duration>{}; });
  Connection* client = network.connect();
  network.run_for(seconds(120));
  EXPECT_EQ(network.count_sent(CmAttribute::kReq), 16u);
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kUnreachable});
  EXPECT_EQ(network.events(0)[0].status, static_cast<std::uint32_t>(ETIMEDOUT));
  EXPECT_EQ(client->state, State::kIdle);
  // The peer may have heard the REQ: it is told, with whose it was.
  const Mad& last = network.sent().back();
  EXPECT_EQ(cm_attribute(last), CmAttribute::kRej);
  EXPECT_EQ(last.get(layout::rej::kReason), 4u);
  EXPECT_EQ(last.get64(layout::rej::kInfo), 0x100u);
}

TEST(ConnectionManager, program_that_takes_its_time__is_waited_for_as_long_as_its_side_says) {
  MadNetwork network;
  network.listen();
  network.connect();
  network.run_for(seconds(60));
  // The second REQ is answered with an MRA, after which this side holds its peace: 4.096 us x 2^24 are 69 s.
  EXPECT_EQ(network.count_sent(CmAttribute::kReq), 2u);
  EXPECT_EQ(network.count_sent(CmAttribute::kMra), 1u);
  EXPECT_EQ(network.events(1).size(), 1u);
  answer_everything(network);
  network.manager(1).accept(*network.events(1)[0].connection, kServerParameters, {}, network.now());
  network.run_for(milliseconds(1));
  EXPECT_EQ(types_of(network.events(0)), kActiveLife);
  EXPECT_EQ(types_of(network.events(1)), kPassiveLife);
}

/// Loses the n-th message of a kind.
Fate losing(CmAttribute attribute, std::size_t nth) {
  return [attribute, nth, seen = std::size_t{0}](const Mad& mad) mutable {
    const bool lost = cm_attribute(mad) == attribute && seen++ == nth;
    return lost ? std::vector<Duration>{} : std::vector{kOneWay};
  };
}

class OneLost : public testing::TestWithParam<CmAttribute> {};

TEST_P(OneLost, makes_the_connection_late_and_nothing_else) {
  MadNetwork network;
  answer_everything(network);
  network.set_fate(losing(GetParam(), 0));
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(200));
  ASSERT_EQ(types_of(network.events(0)), kActiveLife);
  ASSERT_EQ(types_of(network.events(1)), kPassiveLife);
  network.manager(0).disconnect(*client, network.now());
  network.run_for(seconds(3));
  EXPECT_EQ(types_of(network.events(0)),
            (std::vector{EventType::kReply, EventType::kDisconnected, EventType::kTimewaitExit}));
  EXPECT_EQ(types_of(network.events(1)), (std::vector{EventType::kRequest, EventType::kEstablished,
                                                      EventType::kDisconnected, EventType::kTimewaitExit}));
}

INSTANTIATE_TEST_SUITE_P(Each, OneLost,
                         testing::Values(CmAttribute::kReq, CmAttribute::kRep, CmAttribute::kRtu, CmAttribute::kDreq,
                                         CmAttribute::kDrep));

TEST(ConnectionManager, both_ends_hang_up_at_once__is_one_disconnection_on_each_side) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(1));
  Connection* server = network.events(1)[0].connection;
  network.manager(0).disconnect(*client, network.now());
  network.manager(1).disconnect(*server, network.now());
  network.run_for(milliseconds(1));
  EXPECT_EQ(types_of(network.events(0)), (std::vector{EventType::kReply, EventType::kDisconnected}));
  EXPECT_EQ(types_of(network.events(1)),
            (std::vector{EventType::kRequest, EventType::kEstablished, EventType::kDisconnected}));
  EXPECT_EQ(client->state, State::kTimewait);
  EXPECT_EQ(server->state, State::kTimewait);
}

TEST(ConnectionManager, ids_that_connect_across_each_other__are_two_connections) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  Connection* back_listener = network.make_bound(0, PortSpace::kTcp, 7000);
  ASSERT_EQ(network.manager(0).listen(*back_listener, network.now()), 0);
  Connection* client = network.connect();
  Connection* back = network.make_bound(1, PortSpace::kTcp, 0);
  network.manager(1).set_route(*back, network.address(1), {network.address(0), 7000});
  ASSERT_EQ(network.manager(1).connect(*back, {.qpn = Qpn{0x333}}, {.path_mtu = 4}, {}, network.now()), 0);
  network.run_for(milliseconds(1));
  EXPECT_EQ(client->state, State::kEstablished);
  EXPECT_EQ(back->state, State::kEstablished);
  EXPECT_EQ(network.events(0).size(), 3u);
  EXPECT_EQ(network.events(1).size(), 3u);
}

TEST(ConnectionManager, peer_that_has_forgotten_a_connection__is_told_that_its_qp_is_still_in_use) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  network.connect();
  network.run_for(milliseconds(1));
  // The same QP asks anew, by another id: as after a restart.
  network.connect();
  network.run_for(milliseconds(1));
  // The old connection is ended, too (IBTA 12.9.8.3.1).
  ASSERT_EQ(types_of(network.events(0)),
            (std::vector{EventType::kReply, EventType::kRejected, EventType::kDisconnected}));
  EXPECT_EQ(network.events(0)[1].status, 10u);  // IBTA table 107: stale connection
  EXPECT_EQ(network.events(1).back().type, EventType::kDisconnected);
}

TEST(ConnectionManager, peer_that_goes_without_a_word__is_missed_where_the_link_knows) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(1));
  ASSERT_EQ(client->state, State::kEstablished);
  network.set_incarnation(2);
  network.run_for(seconds(1));
  EXPECT_EQ(types_of(network.events(0)), (std::vector{EventType::kReply, EventType::kDisconnected}));
  EXPECT_EQ(network.count_sent(CmAttribute::kDreq), 0u);
}

TEST(ConnectionManager, address__is_looked_for_until_somebody_has_it) {
  MadNetwork network;
  network.set_incarnation(0);
  Connection* id = network.make_bound(0, PortSpace::kTcp, 0);
  const auto resolve = [&] {
    return network.manager(0).resolve(*id, network.address(0), {network.address(1), 7000}, seconds(2), network.now());
  };
  ASSERT_EQ(resolve(), 0);
  EXPECT_EQ(resolve(), EINVAL);
  network.run_for(milliseconds(1900));
  EXPECT_TRUE(network.events(0).empty());
  network.run_for(milliseconds(200));
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kAddressError});
  EXPECT_EQ(network.events(0)[0].status, static_cast<std::uint32_t>(EHOSTUNREACH));
  ASSERT_EQ(resolve(), 0);
  network.run_for(seconds(1));
  network.set_incarnation(1);
  network.run_for(milliseconds(20));
  EXPECT_EQ(network.events(0).back().type, EventType::kAddressResolved);
}

TEST(ConnectionManager, destroying_an_id__says_goodbye_as_its_state_asks_for) {
  MadNetwork network;
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(1));
  network.manager(0).destroy(*client, network.now());
  network.run_for(milliseconds(1));
  EXPECT_EQ(network.events(1).back().type, EventType::kRejected);
  EXPECT_EQ(network.manager(0).connection_count(), 0u);

  answer_everything(network);
  client = network.connect({}, 0x444);
  network.run_for(milliseconds(1));
  ASSERT_EQ(network.events(1).back().type, EventType::kEstablished);
  network.manager(0).destroy(*client, network.now());
  network.run_for(milliseconds(1));
  EXPECT_EQ(network.events(1).back().type, EventType::kDisconnected);
  network.run_for(seconds(3));
  EXPECT_EQ(network.manager(0).connection_count(), 0u);
  EXPECT_EQ(network.events(0).size(), 1u);  // the reply: nothing is said of an id that is gone
}

TEST(ConnectionManager, messages_about_a_connection__count_only_from_its_peer) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  Connection* client = network.connect();
  network.run_for(milliseconds(1));
  Mad forged = make_dreq(*network.events(1)[0].connection);
  network.manager(0).on_mad({.local = network.address(0), .remote = IpAddress::v4(0xc612'0009)}, forged, network.now());
  EXPECT_EQ(client->state, State::kEstablished);
}

TEST(ConnectionManager, lap__is_refused) {
  MadNetwork network;
  Mad lap = make_cm_message(CmAttribute::kLap, 77);
  lap.set(layout::kLocalId, 5);
  network.manager(0).on_mad({.local = network.address(0), .remote = network.address(1)}, lap, network.now());
  ASSERT_EQ(network.sent().size(), 1u);
  EXPECT_EQ(cm_attribute(network.sent()[0]), CmAttribute::kApr);
  EXPECT_EQ(network.sent()[0].get(layout::apr::kStatus), 2u);  // IBTA 12.6.9: alternate paths not supported
  EXPECT_EQ(network.sent()[0].get(layout::kRemoteId), 5u);
}

TEST(ConnectionManager, datagram_service__is_resolved_with_data_to_the_last_byte) {
  MadNetwork network;
  Connection* listener = network.listen(PortSpace::kUdp);
  ASSERT_NE(listener, nullptr);
  Connection* client = network.make_bound(0, PortSpace::kUdp, 0);
  network.manager(0).set_route(*client, network.address(0), {network.address(1), 7000});
  EXPECT_EQ(network.manager(0).resolve_service(*client, numbered(181), network.now()), EINVAL);
  ASSERT_EQ(network.manager(0).resolve_service(*client, numbered(180), network.now()), 0);
  network.set_fate(losing(CmAttribute::kSidrRep, 0));
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(1)), std::vector{EventType::kRequest});
  EXPECT_EQ(network.events(1)[0].data, numbered(180));
  Connection* server = network.events(1)[0].connection;
  EXPECT_EQ(network.manager(1).answer_service(*server, Qpn{9}, 0x1234567, numbered(137)), EINVAL);
  EXPECT_EQ(network.manager(1).answer_service(*server, Qpn{9}, 0x1234567, numbered(136)), 0);
  network.run_for(milliseconds(100));
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kDatagramReply});
  EXPECT_EQ(network.events(0)[0].status, 0u);
  EXPECT_EQ(network.events(0)[0].peer.qpn, Qpn{9});
  EXPECT_EQ(network.events(0)[0].peer.qkey, 0x1234567u);
  EXPECT_EQ(network.events(0)[0].data, numbered(136));
  EXPECT_EQ(network.events(1).size(), 1u);  // the request that came twice was told once
}

TEST(ConnectionManager, datagram_service_of_nobody__is_answered_with_status_1) {
  MadNetwork network;
  Connection* client = network.make_bound(0, PortSpace::kUdp, 0);
  network.manager(0).set_route(*client, network.address(0), {network.address(1), 7000});
  network.manager(0).resolve_service(*client, {}, network.now());
  network.run_for(milliseconds(1));
  ASSERT_EQ(types_of(network.events(0)), std::vector{EventType::kDatagramReply});
  EXPECT_EQ(network.events(0)[0].status, 1u);  // IBTA 12.6.11: service id not supported
}

/// Loses, doubles and delays by up to 300 ms, so that messages overtake each other.
Fate trouble(Random& random, double loss, double duplication) {
  return [&random, loss, duplication](const Mad&) {
    std::vector<Duration> arrivals;
    if (!random.chance(loss)) arrivals.push_back(microseconds(static_cast<std::int64_t>(random.below(300'000))));
    if (random.chance(duplication)) arrivals.push_back(microseconds(static_cast<std::int64_t>(random.below(300'000))));
    return arrivals;
  };
}

TEST(ConnectionManager, trouble__lets_every_id_have_its_events_and_leaves_nothing_behind) {
  const std::uint64_t seed = test::fresh_seed();
  SCOPED_TRACE(test::seed_note(seed));
  Random random(seed);
  constexpr std::size_t kConnections = 200;
  MadNetwork network(seed);
  std::vector<Connection*> clients;
  network.on_event = [&](std::size_t end, const SeenEvent& event) {
    ConnectionManager& manager = network.manager(end);
    switch (event.type) {
      case EventType::kRequest:
        // A copy of a REQ that comes when all is over asks for a connection that nobody wants.
        manager.accept(*event.connection, kServerParameters, {}, network.now());
        break;
      case EventType::kReply:
        EXPECT_EQ(manager.establish(*event.connection), 0);
        break;
      case EventType::kDisconnected:
        if (event.connection->state == State::kDreqReceived) manager.disconnect(*event.connection, network.now());
        break;
      case EventType::kTimewaitExit:
      case EventType::kUnreachable:
      case EventType::kRejected:
        if (end == 1 && event.connection->state == State::kIdle) manager.destroy(*event.connection, network.now());
        break;
      default:
        break;
    }
  };
  network.listen();
  network.set_fate(trouble(random, 0.2, 0.2));
  for (std::uint32_t i = 0; i < kConnections; ++i) {
    clients.push_back(network.connect({}, 0x1000 + i));
    network.run_for(milliseconds(5));
  }
  network.run_for(seconds(120));
  std::size_t established = 0;
  for (Connection* client : clients) {
    const auto about = [&](const SeenEvent& event) { return event.connection == client; };
    EXPECT_GE(std::count_if(network.events(0).begin(), network.events(0).end(), about), 1);
    if (client->state == State::kEstablished) ++established;
    network.manager(0).destroy(*client, network.now());
  }
  // One of five messages lost: 16 tries are enough.
  EXPECT_EQ(established, kConnections);
  network.run_for(seconds(300));
  EXPECT_EQ(network.manager(0).connection_count(), 0u);
  EXPECT_EQ(network.manager(1).connection_count(), 1u);  // the listener
}

TEST(ConnectionManager, thousand_connections__come_and_go_without_a_trace) {
  MadNetwork network;
  answer_everything(network);
  network.listen();
  for (std::uint32_t i = 0; i < 1000; ++i) {
    Connection* client = network.connect({}, 0x1000 + i);
    ASSERT_NE(client, nullptr);
    network.run_for(milliseconds(1));
    ASSERT_EQ(client->state, State::kEstablished);
    network.manager(0).disconnect(*client, network.now());
    network.run_for(milliseconds(1));
    network.manager(0).destroy(*client, network.now());
    network.manager(1).destroy(*network.events(1).back().connection, network.now());
  }
  network.run_for(seconds(3));
  EXPECT_EQ(network.manager(0).connection_count(), 0u);
  EXPECT_EQ(network.manager(1).connection_count(), 1u);
}

TEST(PortTable, addresses_and_ports__are_taken_as_those_of_sockets) {
  MadNetwork network;
  ConnectionManager& manager = network.manager(0);
  const auto bind = [&](const IpAddress& address, bool reuse = false) {
    Connection* made = manager.create(PortSpace::kTcp, &network);
    made->reuse_address = reuse;
    const int error = manager.bind(*made, {address, 500});
    if (error != 0) manager.destroy(*made, network.now());
    return error == 0 ? made : nullptr;
  };
  Connection* one = bind(IpAddress::v4(0xc612'0001));
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(bind(IpAddress::v4(0xc612'0001)), nullptr);
  EXPECT_EQ(bind(IpAddress::v4(0)), nullptr);
  EXPECT_EQ(bind(IpAddress{}), nullptr);  // a wildcard for IPv6 takes IPv4 too
  EXPECT_NE(bind(IpAddress::v4(0xc612'0002)), nullptr);
  manager.destroy(*one, network.now());
  EXPECT_NE(bind(IpAddress::v4(0xc612'0001)), nullptr);
}

}  // namespace
}  // namespace roci::cm
