// UC and UD as Linux's soft-RoCE driver speaks them: its packets are taken, and ours are like them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "tests/golden/captures.h"
#include "tests/support/wire_pair.h"

namespace roci {
namespace {

using test::Frame;
using test::Host;

constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kMessageBytes = 10001;
const IpAddress kPeer = IpAddress::v4(0xc6120002);

PacketView view_of(const Frame& frame) {
  PacketView view;
  const std::size_t header = std::min<std::size_t>(frame.size(), kHeaderCopyBytes);
  EXPECT_EQ(parse_packet({frame.data(), header}, static_cast<std::uint32_t>(frame.size()), &view), ParseStatus::kOk);
  return view;
}

/// The packets that 198.18.0.2 sent to the QP that it sent its first data to.
std::vector<Frame> stream_of(const char* name) {
  std::vector<Frame> stream;
  Qpn to{};
  for (const Frame& frame : test::read_capture(std::filesystem::path(ROCI_GOLDEN_DIR) / name).frames) {
    const PacketView view = view_of(frame);
    if (view.source() != kPeer) continue;
    if (stream.empty()) to = view.bth.dest_qpn;
    if (view.bth.dest_qpn == to) stream.push_back(frame);
  }
  return stream;
}

/// From the BTH to the last byte of payload and pad.
std::vector<std::byte> transport_of(const Frame& frame) {
  const PacketView view = view_of(frame);
  return {frame.begin() + view.bth_offset, frame.begin() + static_cast<std::ptrdiff_t>(view.icrc_offset)};
}

/// What came, now for the QP `to`.
Frame readdressed(Frame frame, Qpn to) {
  store_be24(frame.data() + view_of(frame).bth_offset + 5, to.value);
  test::seal(frame);
  return frame;
}

void deliver(Host& host, const Frame& frame) {
  host.port.arrived.push_back(frame);
  host.device->worker().turn(Instant{1}, TurnReason::kPoll);
}

QpAttr attributes_of(const PacketView& first) {
  QpAttr attr = test::WirePair::defaults();
  attr.rq_psn = attr.sq_psn = first.bth.psn;
  attr.access_flags = kAccessRemoteWrite;
  return attr;
}

/// Host 0 has the address that the driver called, host 1 the one that it called from.
struct Uc : test::WirePair {
  explicit Uc(const std::vector<Frame>& stream) : WirePair(attributes_of(view_of(stream[0])), {}, QpType::kUc) {}
};

TEST(CapturedUc, sends__arrive_as_five_messages) {
  const std::vector<Frame> stream = stream_of("uc-send-mtu1024.pcap");
  ASSERT_EQ(stream.size(), 50u);
  Uc pair(stream);
  for (std::uint64_t i = 0; i < 5; ++i) pair.a.post_receive(i, pair.a.sge(20000 * i, 20000));
  for (const Frame& frame : stream) deliver(pair.a, readdressed(frame, pair.a.qp->qpn()));
  const auto received = pair.a.completions();
  ASSERT_EQ(received.size(), 5u);
  for (const Cqe& cqe : received) EXPECT_EQ(cqe.byte_len, kMessageBytes);
  const PacketView first = view_of(stream[0]);
  EXPECT_TRUE(
      std::equal(pair.a.memory.begin(), pair.a.memory.begin() + 1024, stream[0].begin() + first.payload_offset));
  EXPECT_EQ(pair.a.counters.uc_dropped_messages + pair.a.counters.out_of_sequence, 0u);
  EXPECT_TRUE(pair.a.port.sent.empty());
}

/// Lets host 1 send what the driver sent: the message that starts with `stream[first]`.
void expect_like(const char* name, WrOpcode opcode) {
  const std::vector<Frame> stream = stream_of(name);
  ASSERT_FALSE(stream.empty());
  Uc pair(stream);
  std::size_t at = 0;
  for (const Frame& frame : stream) {
    const PacketView view = view_of(frame);
    std::copy_n(frame.begin() + view.payload_offset, view.payload_bytes,
                pair.b.memory.begin() + static_cast<std::ptrdiff_t>(at));
    at += view.payload_bytes;
    if (view.info->is_last()) break;
  }
  ASSERT_EQ(at, kMessageBytes);
  const Sge out = pair.b.sge(0, kMessageBytes);
  SendRequest request{.opcode = opcode, .flags = kSendSignaled, .num_sge = 1, .sges = &out};
  const PacketView first = view_of(stream[0]);
  if (opcode == WrOpcode::kRdmaWrite) {
    request.remote_addr = first.reth().va;
    request.rkey = first.reth().rkey;
  }
  pair.b.post(request);
  pair.b.device->worker().turn(Instant{1}, TurnReason::kPoll);
  ASSERT_EQ(pair.b.port.sent.size(), 10u);
  for (std::size_t i = 0; i < pair.b.port.sent.size(); ++i) {
    const Frame theirs = readdressed(stream[i], pair.a.qp->qpn());
    EXPECT_EQ(transport_of(pair.b.port.sent[i]), transport_of(theirs)) << "packet " << i;
  }
}

TEST(CapturedUc, our_send__is_the_drivers) { expect_like("uc-send-mtu1024.pcap", WrOpcode::kSend); }
TEST(CapturedUc, our_write__is_the_drivers) { expect_like("uc-write-mtu1024.pcap", WrOpcode::kRdmaWrite); }

TEST(CapturedUd, datagrams__arrive_behind_their_ip_header) {
  for (const char* name : {"ud-send-mtu1024.pcap", "ud-send-mtu4096.pcap", "ud-imm-sidr-udaddy.pcap"}) {
    std::size_t count = 0;
    for (const Frame& frame : stream_of(name)) {
      const PacketView theirs = view_of(frame);
      QpAttr attr = attributes_of(theirs);
      attr.qkey = theirs.deth().qkey;
      test::WirePair pair(attr, {}, QpType::kUd);
      pair.a.post_receive(3, pair.a.sge(0, 5000));
      const Frame ours = readdressed(frame, pair.a.qp->qpn());
      deliver(pair.a, ours);
      const auto received = pair.a.completions();
      ASSERT_EQ(received.size(), 1u) << name;
      EXPECT_EQ(received[0].byte_len, kGrhBytes + theirs.payload_bytes);
      EXPECT_EQ(received[0].src_qpn, theirs.deth().src_qpn);
      EXPECT_EQ((received[0].flags & kWcWithImm) != 0, theirs.info->has(Extension::kImmDt));
      EXPECT_TRUE(std::equal(ours.begin() + 14, ours.begin() + 34, pair.a.memory.begin() + 20));
      EXPECT_TRUE(std::equal(ours.begin() + theirs.payload_offset,
                             ours.begin() + theirs.payload_offset + theirs.payload_bytes,
                             pair.a.memory.begin() + kGrhBytes));
      ++count;
    }
    EXPECT_GT(count, 0u) << name;
  }
}

}  // namespace
}  // namespace roci
