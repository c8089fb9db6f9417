// rdma_cm as programs use it, both ends in one process: the device loops back.
#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace roci::abi {
namespace {

struct DestroyChannel {
  void operator()(rdma_event_channel* channel) const { rdma_destroy_event_channel(channel); }
};
struct DestroyId {
  void operator()(rdma_cm_id* id) const {
    if (id->qp != nullptr) rdma_destroy_qp(id);
    EXPECT_EQ(rdma_destroy_id(id), 0);
  }
};
using EventChannel = std::unique_ptr<rdma_event_channel, DestroyChannel>;
using Id = std::unique_ptr<rdma_cm_id, DestroyId>;

/// The device's own address, as it lies in the GID table.
sockaddr_storage own_address(int family, std::uint16_t port) {
  int count = 0;
  ibv_context** devices = rdma_get_devices(&count);
  EXPECT_EQ(count, 1);
  sockaddr_storage address{};
  ibv_gid gid;
  const int index = family == AF_INET ? 0 : 1;
  EXPECT_EQ(ibv_query_gid(devices[0], 1, index, &gid), 0);
  rdma_free_devices(devices);
  if (family == AF_INET) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&address);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    std::memcpy(&v4->sin_addr, gid.raw + 12, 4);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&address);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    std::memcpy(&v6->sin6_addr, gid.raw, 16);
  }
  return address;
}

sockaddr_storage wildcard(int family, std::uint16_t port) {
  sockaddr_storage address{};
  address.ss_family = static_cast<sa_family_t>(family);
  // The port is in the same place for both.
  reinterpret_cast<sockaddr_in*>(&address)->sin_port = htons(port);
  return address;
}

sockaddr* plain(sockaddr_storage& address) { return reinterpret_cast<sockaddr*>(&address); }

std::vector<std::uint8_t> numbered(std::size_t size) {
  std::vector<std::uint8_t> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::uint8_t>(i + 1);
  return data;
}

std::vector<std::uint8_t> data_of(const rdma_conn_param& param) {
  const auto* begin = static_cast<const std::uint8_t*>(param.private_data);
  return {begin, begin + param.private_data_len};
}

bool is_readable(int fd, int timeout_ms = 0) {
  pollfd readable{.fd = fd, .events = POLLIN, .revents = 0};
  return poll(&readable, 1, timeout_ms) == 1;
}

class RdmaCm : public testing::Test {
 protected:
  void SetUp() override {
    channel_.reset(rdma_create_event_channel());
    ASSERT_NE(channel_, nullptr);
  }

  Id make_id(rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(channel_.get(), &id, this, space), 0) << std::strerror(errno);
    return Id(id);
  }

  /// The next event, which must be of `type`. To be acknowledged.
  rdma_cm_event* next(rdma_cm_event_type type) {
    rdma_cm_event* event = nullptr;
    if (!is_readable(channel_->fd, 20'000) || rdma_get_cm_event(channel_.get(), &event) != 0) {
      ADD_FAILURE() << "no " << rdma_event_str(type);
      return nullptr;
    }
    EXPECT_STREQ(rdma_event_str(event->event), rdma_event_str(type)) << "status " << event->status;
    return event;
  }
  void expect(rdma_cm_event_type type, int status = 0) {
    rdma_cm_event* event = next(type);
    if (event == nullptr) return;
    EXPECT_EQ(event->status, status);
    rdma_ack_cm_event(event);
  }

  Id listen(int family = AF_INET, int backlog = 0, rdma_port_space space = RDMA_PS_TCP) {
    Id id = make_id(space);
    sockaddr_storage address = wildcard(family, 0);
    EXPECT_EQ(rdma_bind_addr(id.get(), plain(address)), 0) << std::strerror(errno);
    EXPECT_EQ(rdma_listen(id.get(), backlog), 0) << std::strerror(errno);
    return id;
  }

  /// An id whose way to the listener is known.
  Id resolved(const Id& listener, int family = AF_INET, rdma_port_space space = RDMA_PS_TCP) {
    Id id = make_id(space);
    sockaddr_storage address = own_address(family, ntohs(rdma_get_src_port(listener.get())));
    EXPECT_EQ(rdma_resolve_addr(id.get(), nullptr, plain(address), 2000), 0) << std::strerror(errno);
    expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id.get(), 2000), 0) << std::strerror(errno);
    expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }

  void make_qp(const Id& id) {
    ibv_qp_init_attr attr{};
    attr.qp_type = id->qp_type;
    attr.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    ASSERT_EQ(rdma_create_qp(id.get(), nullptr, &attr), 0) << std::strerror(errno);
  }

  /// `data` outlives what is returned.
  static rdma_conn_param parameters(const std::vector<std::uint8_t>& data = {}) {
    rdma_conn_param param{};
    param.private_data = data.data();
    param.private_data_len = static_cast<std::uint8_t>(data.size());
    param.responder_resources = 1;
    param.initiator_depth = 2;
    param.retry_count = 7;
    param.rnr_retry_count = 7;
    return param;
  }

  EventChannel channel_;
};

TEST_F(RdmaCm, connection__gives_each_side_its_events_in_order) {
  const Id listener = listen();
  Id client = resolved(listener);
  make_qp(client);
  EXPECT_EQ(client->qp->state, IBV_QPS_INIT);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.get(), &param), 0) << std::strerror(errno);
  rdma_cm_event* request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->listen_id, listener.get());
  Id server(request->id);
  // As the other side sees it.
  EXPECT_EQ(request->param.conn.responder_resources, 2);
  EXPECT_EQ(request->param.conn.initiator_depth, 1);
  EXPECT_EQ(request->param.conn.qp_num, client->qp->qp_num);
  rdma_ack_cm_event(request);
  EXPECT_EQ(server->verbs, client->verbs);
  EXPECT_EQ(server->context, this);
  EXPECT_EQ(rdma_get_dst_port(server.get()), rdma_get_src_port(client.get()));
  make_qp(server);
  param = parameters();
  ASSERT_EQ(rdma_accept(server.get(), &param), 0) << std::strerror(errno);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  for (const Id* id : {&client, &server}) EXPECT_EQ((*id)->qp->state, IBV_QPS_RTS);

  ASSERT_EQ(rdma_disconnect(client.get()), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  EXPECT_EQ(client->qp->state, IBV_QPS_ERR);
  ASSERT_EQ(rdma_disconnect(server.get()), 0);
  expect(RDMA_CM_EVENT_DISCONNECTED);
  expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
  expect(RDMA_CM_EVENT_TIMEWAIT_EXIT);
}

TEST_F(RdmaCm, messages__go_over_the_connection_that_synchronous_ids_make) {
  rdma_addrinfo hints{};
  hints.ai_flags = RAI_PASSIVE;
  hints.ai_port_space = RDMA_PS_TCP;
  rdma_addrinfo* passive = nullptr;
  ASSERT_EQ(rdma_getaddrinfo("0.0.0.0", "7471", &hints, &passive), 0);
  ibv_qp_init_attr attr{};
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 16};
  attr.sq_sig_all = 1;
  rdma_cm_id* listener = nullptr;
  ASSERT_EQ(rdma_create_ep(&listener, passive, nullptr, &attr), 0) << std::strerror(errno);
  rdma_freeaddrinfo(passive);
  ASSERT_EQ(rdma_listen(listener, 0), 0);
  std::array<char, 16> received{};
  std::thread server([&] {
    rdma_cm_id* id = nullptr;
    ASSERT_EQ(rdma_get_request(listener, &id), 0) << std::strerror(errno);
    ibv_mr* mr = rdma_reg_msgs(id, received.data(), received.size());
    ASSERT_NE(mr, nullptr);
    ASSERT_EQ(rdma_post_recv(id, nullptr, received.data(), received.size(), mr), 0);
    ASSERT_EQ(rdma_accept(id, nullptr), 0) << std::strerror(errno);
    ibv_wc wc;
    EXPECT_EQ(rdma_get_recv_comp(id, &wc), 1);
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
  });
  sockaddr_storage address = own_address(AF_INET, 7471);
  rdma_addrinfo* active = nullptr;
  hints = {};
  hints.ai_port_space = RDMA_PS_TCP;
  std::array<char, INET_ADDRSTRLEN> text{};
  inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&address)->sin_addr, text.data(), text.size());
  ASSERT_EQ(rdma_getaddrinfo(text.data(), "7471", &hints, &active), 0);
  rdma_cm_id* client = nullptr;
  ASSERT_EQ(rdma_create_ep(&client, active, nullptr, &attr), 0) << std::strerror(errno);
  rdma_freeaddrinfo(active);
  ASSERT_EQ(rdma_connect(client, nullptr), 0) << std::strerror(errno);
  std::array<char, 16> message{"fifteen bytes.."};
  ASSERT_EQ(rdma_post_send(client, nullptr, message.data(), message.size(), nullptr, IBV_SEND_INLINE), 0);
  ibv_wc wc;
  EXPECT_EQ(rdma_get_send_comp(client, &wc), 1);
  // Each waits for the other's answer.
  rdma_disconnect(client);
  server.join();
  EXPECT_EQ(received, message);
  rdma_destroy_ep(client);
  rdma_destroy_ep(listener);
}

TEST_F(RdmaCm, private_data__comes_to_the_last_byte) {
  const Id listener = listen();
  Id client = resolved(listener);
  make_qp(client);
  const std::vector<std::uint8_t> too_long = numbered(57);
  rdma_conn_param param = parameters(too_long);
  EXPECT_EQ(rdma_connect(client.get(), &param), -1);
  EXPECT_EQ(errno, EINVAL);
  const std::vector<std::uint8_t> asked = numbered(56);
  param = parameters(asked);
  ASSERT_EQ(rdma_connect(client.get(), &param), 0);
  rdma_cm_event* request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(data_of(request->param.conn), asked);
  Id server(request->id);
  rdma_ack_cm_event(request);
  const std::vector<std::uint8_t> answered = numbered(148);
  ASSERT_EQ(rdma_reject(server.get(), answered.data(), 148), 0);
  rdma_cm_event* rejected = next(RDMA_CM_EVENT_REJECTED);
  ASSERT_NE(rejected, nullptr);
  EXPECT_EQ(rejected->status, 28);  // IBTA table 107: consumer reject
  EXPECT_EQ(data_of(rejected->param.conn), answered);
  rdma_ack_cm_event(rejected);
}

TEST_F(RdmaCm, nobody_listening__is_a_rejection_with_reason_8) {
  Id client = make_id();
  sockaddr_storage address = own_address(AF_INET, 1);
  ASSERT_EQ(rdma_resolve_addr(client.get(), nullptr, plain(address), 2000), 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(client.get(), 2000), 0);
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(client);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.get(), &param), 0);
  expect(RDMA_CM_EVENT_REJECTED, 8);
}

TEST_F(RdmaCm, descriptor__is_readable_while_an_event_is_there_and_obeys_nonblocking) {
  EXPECT_FALSE(is_readable(channel_->fd));
  ASSERT_EQ(fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
  rdma_cm_event* event = nullptr;
  EXPECT_EQ(rdma_get_cm_event(channel_.get(), &event), -1);
  EXPECT_EQ(errno, EAGAIN);
  const Id listener = listen();
  const Id client = resolved(listener);
  EXPECT_FALSE(is_readable(channel_->fd));
}

TEST_F(RdmaCm, backlog__is_as_many_requests_as_wait_to_be_fetched) {
  const Id listener = listen(AF_INET, 1);
  const EventChannel unfetched(rdma_create_event_channel());
  ASSERT_EQ(rdma_migrate_id(listener.get(), unfetched.get()), 0);
  Id first = resolved(listener);
  Id second = resolved(listener);
  make_qp(first);
  make_qp(second);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(first.get(), &param), 0);
  ASSERT_TRUE(is_readable(unfetched->fd, 20'000));
  ASSERT_EQ(rdma_connect(second.get(), &param), 0);
  rdma_cm_event* rejected = next(RDMA_CM_EVENT_REJECTED);
  ASSERT_NE(rejected, nullptr);
  EXPECT_EQ(rejected->id, second.get());
  rdma_ack_cm_event(rejected);
  rdma_cm_event* request = nullptr;
  ASSERT_EQ(rdma_get_cm_event(unfetched.get(), &request), 0);
  const Id server(request->id);
  rdma_ack_cm_event(request);
  ASSERT_EQ(rdma_migrate_id(listener.get(), channel_.get()), 0);
}

TEST_F(RdmaCm, listener_that_goes__takes_the_requests_that_nobody_fetched_with_it) {
  Id listener = listen();
  Id client = resolved(listener);
  make_qp(client);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.get(), &param), 0);
  ASSERT_TRUE(is_readable(channel_->fd, 20'000));
  listener.reset();
  expect(RDMA_CM_EVENT_REJECTED, 28);
}

TEST_F(RdmaCm, addresses_and_ports__are_taken_once) {
  const Id listener = listen();
  const Id other = make_id();
  sockaddr_storage address = own_address(AF_INET, ntohs(rdma_get_src_port(listener.get())));
  EXPECT_EQ(rdma_bind_addr(other.get(), plain(address)), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(0xc613'0101);  // 198.19.1.1: nobody's
  EXPECT_EQ(rdma_bind_addr(other.get(), plain(address)), -1);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
}

TEST_F(RdmaCm, address_of_nobody__is_an_error_when_the_time_is_over) {
  const Id id = make_id();
  sockaddr_storage address = own_address(AF_INET, 7000);
  reinterpret_cast<sockaddr_in*>(&address)->sin_addr.s_addr = htonl(0xc613'0101);  // 198.19.1.1
  ASSERT_EQ(rdma_resolve_addr(id.get(), nullptr, plain(address), 50), 0);
  expect(RDMA_CM_EVENT_ADDR_ERROR, -EHOSTUNREACH);
}

TEST_F(RdmaCm, device__is_known_once_the_address_is_not_a_wildcard) {
  const Id listener = listen();
  EXPECT_EQ(listener->verbs, nullptr);
  const Id bound = make_id();
  sockaddr_storage address = own_address(AF_INET6, 0);
  ASSERT_EQ(rdma_bind_addr(bound.get(), plain(address)), 0);
  ASSERT_NE(bound->verbs, nullptr);
  EXPECT_NE(bound->pd, nullptr);
  EXPECT_EQ(bound->port_num, 1);
  int count = 0;
  ibv_context** devices = rdma_get_devices(&count);
  EXPECT_EQ(bound->verbs, devices[0]);
  rdma_free_devices(devices);
}

TEST_F(RdmaCm, ipv6_wildcard__takes_connections_of_both_families) {
  const Id listener = listen(AF_INET6);
  for (const int family : {AF_INET6, AF_INET}) {
    Id client = resolved(listener, family);
    make_qp(client);
    rdma_conn_param param = parameters();
    ASSERT_EQ(rdma_connect(client.get(), &param), 0);
    rdma_cm_event* request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
    ASSERT_NE(request, nullptr);
    const Id server(request->id);
    EXPECT_EQ(rdma_get_peer_addr(server.get())->sa_family, family);
    rdma_ack_cm_event(request);
    ASSERT_EQ(rdma_reject(server.get(), nullptr, 0), 0);
    expect(RDMA_CM_EVENT_REJECTED, 28);
  }
}

TEST_F(RdmaCm, external_qp__is_moved_by_the_program_and_established_by_it) {
  const Id listener = listen();
  Id client = resolved(listener);
  Id holder = resolved(listener);  // its QP is the client's
  make_qp(holder);
  rdma_conn_param param = parameters();
  param.qp_num = holder->qp->qp_num;
  ASSERT_EQ(rdma_connect(client.get(), &param), 0);
  rdma_cm_event* request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->param.conn.qp_num, holder->qp->qp_num);
  Id server(request->id);
  rdma_ack_cm_event(request);
  make_qp(server);
  param = parameters();
  ASSERT_EQ(rdma_accept(server.get(), &param), 0);
  expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    ASSERT_EQ(rdma_init_qp_attr(client.get(), &attr, &mask), 0) << state;
    EXPECT_EQ(ibv_modify_qp(holder->qp, &attr, mask), 0) << state;
  }
  ASSERT_EQ(rdma_establish(client.get()), 0);
  expect(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_F(RdmaCm, migrated_id__takes_its_events_along) {
  const Id listener = listen();
  Id client = make_id();
  sockaddr_storage address = own_address(AF_INET, ntohs(rdma_get_src_port(listener.get())));
  ASSERT_EQ(rdma_resolve_addr(client.get(), nullptr, plain(address), 2000), 0);
  const EventChannel other(rdma_create_event_channel());
  ASSERT_EQ(rdma_migrate_id(client.get(), other.get()), 0);
  EXPECT_EQ(client->channel, other.get());
  EXPECT_FALSE(is_readable(channel_->fd));
  rdma_cm_event* event = nullptr;
  ASSERT_EQ(rdma_get_cm_event(other.get(), &event), 0);
  EXPECT_EQ(event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
  rdma_ack_cm_event(event);
  ASSERT_EQ(rdma_migrate_id(client.get(), channel_.get()), 0);
}

TEST_F(RdmaCm, datagram_service__is_resolved_to_a_qp_and_a_qkey) {
  const Id listener = listen(AF_INET, 0, RDMA_PS_UDP);
  Id client = resolved(listener, AF_INET, RDMA_PS_UDP);
  make_qp(client);
  EXPECT_EQ(client->qp->state, IBV_QPS_RTS);
  const std::vector<std::uint8_t> asked = numbered(180);
  rdma_conn_param param{};
  param.private_data = asked.data();
  param.private_data_len = 180;
  ASSERT_EQ(rdma_connect(client.get(), &param), 0) << std::strerror(errno);
  rdma_cm_event* request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request, nullptr);
  EXPECT_EQ(request->param.ud.private_data_len, 180);
  Id server(request->id);
  rdma_ack_cm_event(request);
  make_qp(server);
  const std::vector<std::uint8_t> answered = numbered(136);
  param.private_data = answered.data();
  param.private_data_len = 136;
  param.qp_num = server->qp->qp_num;
  ASSERT_EQ(rdma_accept(server.get(), &param), 0) << std::strerror(errno);
  rdma_cm_event* established = next(RDMA_CM_EVENT_ESTABLISHED);
  ASSERT_NE(established, nullptr);
  const rdma_ud_param& ud = established->param.ud;
  EXPECT_EQ(ud.qp_num, server->qp->qp_num);
  EXPECT_EQ(ud.qkey, 0x0123'4567u);
  EXPECT_EQ(ud.private_data_len, 136);
  ibv_ah_attr way = ud.ah_attr;
  ibv_ah* ah = ibv_create_ah(client->pd, &way);
  EXPECT_NE(ah, nullptr);
  if (ah != nullptr) ibv_destroy_ah(ah);
  rdma_ack_cm_event(established);
}

TEST_F(RdmaCm, misuse__is_told_by_errno) {
  const Id id = make_id();
  rdma_conn_param param = parameters();
  EXPECT_EQ(rdma_connect(id.get(), &param), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_accept(id.get(), &param), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_reject(id.get(), nullptr, 0), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_disconnect(id.get()), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_resolve_route(id.get(), 1000), -1);
  EXPECT_EQ(errno, EINVAL);
  int number = 1;
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, sizeof number), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rdma_set_option(id.get(), RDMA_OPTION_ID, 99, &number, sizeof number), -1);
  EXPECT_EQ(errno, ENOSYS);
}

TEST_F(RdmaCm, traffic_class_and_ack_timeout__reach_both_qps) {
  const Id listener = listen();
  Id client = make_id();
  std::uint8_t tos = 0x60;
  std::uint8_t timeout = 15;
  ASSERT_EQ(rdma_set_option(client.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
  ASSERT_EQ(rdma_set_option(client.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
  sockaddr_storage address = own_address(AF_INET, ntohs(rdma_get_src_port(listener.get())));
  ASSERT_EQ(rdma_resolve_addr(client.get(), nullptr, plain(address), 2000), 0);
  expect(RDMA_CM_EVENT_ADDR_RESOLVED);
  ASSERT_EQ(rdma_resolve_route(client.get(), 2000), 0);
  expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
  make_qp(client);
  rdma_conn_param param = parameters();
  ASSERT_EQ(rdma_connect(client.get(), &param), 0);
  rdma_cm_event* request = next(RDMA_CM_EVENT_CONNECT_REQUEST);
  ASSERT_NE(request, nullptr);
  Id server(request->id);
  rdma_ack_cm_event(request);
  make_qp(server);
  ASSERT_EQ(rdma_accept(server.get(), &param), 0);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  expect(RDMA_CM_EVENT_ESTABLISHED);
  for (const Id* id : {&client, &server}) {
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    ASSERT_EQ(ibv_query_qp((*id)->qp, &attr, IBV_QP_AV | IBV_QP_TIMEOUT, &init), 0);
    EXPECT_EQ(attr.ah_attr.grh.traffic_class, 0x60);
    EXPECT_EQ(attr.timeout, 15);
  }
}

}  // namespace
}  // namespace roci::abi
