// Messages as Linux lays them out: given the values that a captured message holds, ours are equal to the last byte.
#include "stack/cm/messages.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <vector>

#include "stack/wire/packet.h"
#include "tests/golden/captures.h"

namespace roci::cm {
namespace {

namespace layout = cm_layout;

constexpr std::uint32_t kServerV4 = 0xc612'0001;  // 198.18.0.1
constexpr std::uint32_t kClientV4 = 0xc612'0002;
constexpr std::uint64_t kServerGuid = 0x5054'00ff'fe00'000a;
constexpr std::uint64_t kClientGuid = 0x5054'00ff'fe00'000b;

/// The management datagrams of a capture in order.
std::vector<Mad> mads_of(const char* name) {
  std::vector<Mad> mads;
  for (const test::FrameBytes& frame : test::read_capture(std::filesystem::path(ROCI_GOLDEN_DIR) / name).frames) {
    PacketView view;
    const std::size_t header_bytes = std::min(frame.size(), kHeaderCopyBytes);
    const ParseStatus status =
        parse_packet({frame.data(), header_bytes}, static_cast<std::uint32_t>(frame.size()), &view);
    if (status != ParseStatus::kOk || view.bth.dest_qpn.value != kGsiQpn) continue;
    EXPECT_EQ(view.payload_bytes, Mad::kSize);
    EXPECT_EQ(view.deth().qkey, kGsiQkey);
    EXPECT_EQ(view.deth().src_qpn.value, kGsiQpn);
    Mad& mad = mads.emplace_back();
    std::memcpy(mad.bytes.data(), frame.data() + view.payload_offset, Mad::kSize);
  }
  return mads;
}

/// What tshark says of the connection in rdmacm-rping-ipv4-mtu4096.pcap.
Connection rping_client() {
  Connection connection;
  connection.local = {IpAddress::v4(kClientV4), 0xdfb9};
  connection.remote = {IpAddress::v4(kServerV4), 7174};
  connection.local_id = 0xc5da'b833;
  connection.remote_id = 0xa975'69de;
  connection.transaction_id = 0x2'33b8'dac5;
  connection.service_id = ip_service_id(0x0106, 7174);
  connection.own = {.qpn = Qpn{0x21},
                    .starting_psn = Psn(0xc0'3818),
                    .responder_resources = 1,
                    .initiator_depth = 1,
                    .retry_count = 7,
                    .rnr_retry_count = 7};
  connection.peer.qpn = Qpn{0x21};
  connection.path = {.path_mtu = 5, .hop_limit = 64, .ack_timeout = 19, .flow_label = 0xb'336d};
  return connection;
}

TEST(CmMessages, connection__is_made_and_ended_as_linux_does_over_ipv4) {
  const std::vector<Mad> captured = mads_of("rdmacm-rping-ipv4-mtu4096.pcap");
  ASSERT_EQ(captured.size(), 5u);
  const Connection client = rping_client();
  EXPECT_EQ(make_req(client, kClientGuid, {}), captured[0]);

  Connection server;
  server.local_id = 0xa975'69de;
  server.remote_id = 0xc5da'b833;
  server.transaction_id = 0x2'33b8'dac5;
  server.own = {.qpn = Qpn{0x21},
                .starting_psn = Psn(0x35'9b33),
                .responder_resources = 1,
                .initiator_depth = 1,
                .rnr_retry_count = 7};
  EXPECT_EQ(make_rep(server, kServerGuid, {}), captured[1]);
  EXPECT_EQ(make_rtu(client), captured[2]);
  EXPECT_EQ(make_dreq(client), captured[3]);
  EXPECT_EQ(make_drep(captured[3]), captured[4]);
}

TEST(CmMessages, req_over_ipv6__is_laid_out_as_linux_does) {
  const std::vector<Mad> captured = mads_of("rdmacm-rping-ipv6-mtu4096.pcap");
  ASSERT_EQ(captured.size(), 5u);
  Connection client = rping_client();
  client.local = {IpAddress{{0xfd, 0x18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0b}}, 0x8d26};
  client.remote = {IpAddress{{0xfd, 0x18, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x0a}}, 7174};
  client.local_id = 0xc2da'b833;
  client.transaction_id = 0x2'33b8'dac2;
  client.own.qpn = Qpn{0x22};
  client.own.starting_psn = Psn(0x32'c9bf);
  client.path.flow_label = 0x1'33a0;
  EXPECT_EQ(make_req(client, kClientGuid, {}), captured[0]);
}

TEST(CmMessages, private_data__stands_behind_the_header_of_ip_cm_and_at_the_start_of_a_rep) {
  const std::vector<Mad> captured = mads_of("rc-write-imm-rstream-mtu4096.pcap");
  ASSERT_EQ(captured.size(), 5u);
  // What rsockets tell each other: version 1, flags 2, 384 credits.
  const std::array start{std::byte{1}, std::byte{2}, std::byte{0x01}, std::byte{0x80}};
  const auto of_req = private_data(captured[0], behind_ip_header(layout::req::kPrivateData));
  EXPECT_EQ(of_req.size(), 56u);
  EXPECT_TRUE(std::ranges::equal(of_req.first(4), start));
  const auto of_rep = private_data(captured[1], layout::rep::kPrivateData);
  EXPECT_EQ(of_rep.size(), 196u);
  EXPECT_TRUE(std::ranges::equal(of_rep.first(4), start));

  const Mad ours = make_req(rping_client(), kClientGuid, of_req);
  EXPECT_TRUE(std::ranges::equal(private_data(ours, behind_ip_header(layout::req::kPrivateData)), of_req));
  EXPECT_EQ(ours.bytes.back(), captured[0].bytes.back());
}

TEST(CmMessages, rej_of_nobody_listening__is_laid_out_as_linux_does) {
  const std::vector<Mad> captured = mads_of("rdmacm-reject.pcap");
  ASSERT_EQ(captured.size(), 2u);
  EXPECT_EQ(make_rej(captured[0].get64(mad::kTransactionId), 0, captured[0].get(layout::kLocalId), AboutMessage::kReq,
                     RejectReason::kInvalidServiceId),
            captured[1]);
}

TEST(CmMessages, datagram_service__is_resolved_as_linux_does) {
  const std::vector<Mad> captured = mads_of("ud-imm-sidr-udaddy.pcap");
  ASSERT_EQ(captured.size(), 2u);
  Connection client;
  client.local = {IpAddress::v4(kClientV4), 0xc009};
  client.remote = {IpAddress::v4(kServerV4), 0x1c06};
  client.local_id = 0xc1da'b833;
  client.transaction_id = 0x2'33b8'dac1;
  client.service_id = ip_service_id(0x0111, 0x1c06);
  EXPECT_EQ(make_sidr_req(client, {}), captured[0]);

  Connection server;
  server.remote_id = 0xc1da'b833;
  server.transaction_id = 0x2'33b8'dac1;
  server.service_id = client.service_id;
  server.own.qpn = Qpn{0x29};
  server.own.qkey = 0x0123'4567;
  EXPECT_EQ(make_sidr_rep(server, SidrStatus::kSuccess, {}), captured[1]);
}

// IBTA 12.6.5: what one side asks for is what the other answers.
TEST(CmMessages, depths_of_a_req__change_sides) {
  Connection client = rping_client();
  client.own.responder_resources = 3;
  client.own.initiator_depth = 5;
  const ConnectionParameters seen = parameters_of_req(make_req(client, kClientGuid, {}));
  EXPECT_EQ(seen.responder_resources, 5);
  EXPECT_EQ(seen.initiator_depth, 3);
  EXPECT_EQ(seen.qpn, client.own.qpn);
  EXPECT_EQ(seen.starting_psn, client.own.starting_psn);
}

}  // namespace
}  // namespace roci::cm
