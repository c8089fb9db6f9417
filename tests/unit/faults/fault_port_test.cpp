#include "drivers/faults/fault_port.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>

#include "stack/wire/packet.h"
#include "tests/unit/faults/packets.h"

namespace roci {
namespace {

using test::Bytes;
using test::make_frame;

/// The port within: notes what is sent, gives what the test puts in.
class InnerPort : public Port {
 public:
  PortAttributes attributes() const override { return {.link_mtu_bytes = 1234}; }
  Route* acquire_route(const IpAddress&, Qpn) override { return &route; }
  void release_route(Route*) override { ++released; }
  void begin_turn(Instant, TurnReason) override { ++turns; }
  void end_turn(Instant) override { --turns; }
  std::size_t rx_burst(std::span<RxFrame> out) override {
    EXPECT_EQ(lent, 0u);
    lent = std::min(out.size(), arrived.size());
    for (std::size_t i = 0; i < lent; ++i) out[i] = {arrived[i].data(), static_cast<std::uint32_t>(arrived[i].size())};
    return lent;
  }
  void rx_release() override {
    // What was lent may be overwritten from now on.
    for (; lent > 0; --lent) {
      std::fill(arrived.front().begin(), arrived.front().end(), std::byte{0xee});
      gone.push_back(std::move(arrived.front()));
      arrived.pop_front();
    }
  }
  std::size_t tx_reserve(Route&, std::span<TxSlot> out) override {
    EXPECT_FALSE(reserved);
    const std::size_t count = std::min({out.size(), room, slots.size()});
    for (std::size_t i = 0; i < count; ++i) out[i].data = slots[i].data();
    reserved = count > 0;
    return count;
  }
  void tx_commit(Route&, std::span<const std::uint32_t> frame_bytes) override {
    EXPECT_TRUE(reserved);
    reserved = false;
    for (std::size_t i = 0; i < frame_bytes.size(); ++i)
      sent.emplace_back(slots[i].begin(), slots[i].begin() + frame_bytes[i]);
    room -= frame_bytes.size();
  }
  Instant next_deadline() const override { return deadline; }
  bool peer_stalled(const Route&) override { return true; }
  void prepare_wait(bool) override {}
  bool wait(Duration) override { return true; }
  void cancel_wait() override {}
  void wake() override {}

  Route route;
  std::deque<Bytes> arrived;
  std::deque<Bytes> gone;
  std::vector<Bytes> sent;
  std::array<std::array<std::byte, kMaxFrameBytes>, 32> slots{};
  std::size_t room = 1000;
  std::size_t lent = 0;
  bool reserved = false;
  int released = 0;
  int turns = 0;
  Instant deadline = kNever;
};

std::string psn_of(std::span<const std::byte> frame) {
  PacketView view;
  const ParseStatus status = parse_packet(frame.first(std::min(frame.size(), kHeaderCopyBytes)),
                                          static_cast<std::uint32_t>(frame.size()), &view);
  return status == ParseStatus::kOk ? std::to_string(view.bth.psn.value()) + " " : std::string(name_of(status)) + " ";
}

class FaultPortTest : public testing::Test {
 protected:
  void make(std::string_view text, std::uint32_t frames = 64) {
    FaultScript script;
    std::string error;
    ASSERT_TRUE(parse_fault_script(text, "test", &script, &error)) << error;
    auto made = std::make_unique<InnerPort>();
    inner = made.get();
    port = std::make_unique<FaultPort>(std::move(made), script, frames);
  }
  void begin() { port->begin_turn(now, TurnReason::kPoll); }
  void end() { port->end_turn(now); }
  /// Sends frames with these PSNs in one burst; returns how many there was room for.
  std::size_t send(std::initializer_list<std::uint32_t> psns) {
    std::array<TxSlot, 16> slots;
    const std::size_t room = port->tx_reserve(inner->route, std::span(slots).first(psns.size()));
    std::vector<std::uint32_t> sizes;
    for (std::uint32_t psn : psns) {
      if (sizes.size() == room) break;
      const Bytes frame = make_frame(Opcode::kRcSendOnly, psn);
      std::memcpy(slots[sizes.size()].data, frame.data(), frame.size());
      sizes.push_back(static_cast<std::uint32_t>(frame.size()));
    }
    if (room > 0) port->tx_commit(inner->route, sizes);
    return room;
  }
  std::string sent() {
    std::string out;
    for (const Bytes& frame : inner->sent) out += psn_of(frame);
    inner->sent.clear();
    return out;
  }
  std::string received(std::size_t burst = 32) {
    std::vector<RxFrame> frames(burst);
    const std::size_t count = port->rx_burst(frames);
    std::string out;
    for (std::size_t i = 0; i < count; ++i) out += psn_of({frames[i].data, frames[i].size});
    port->rx_release();
    return out;
  }
  void arrive(std::initializer_list<std::uint32_t> psns) {
    for (std::uint32_t psn : psns) inner->arrived.push_back(make_frame(Opcode::kRcSendOnly, psn));
  }

  InnerPort* inner = nullptr;
  std::unique_ptr<FaultPort> port;
  Instant now{};
};

TEST_F(FaultPortTest, no_faults__all_passes_both_ways) {
  make("");
  arrive({7, 8});
  begin();
  EXPECT_EQ(received(), "7 8 ");
  EXPECT_EQ(send({1, 2, 3}), 3u);
  end();
  EXPECT_EQ(sent(), "1 2 3 ");
  EXPECT_EQ(port->next_deadline(), kNever);
}

TEST_F(FaultPortTest, tx__drop_duplicate_and_reorder_within_a_burst) {
  make("drop nth=2 dir=tx\nduplicate nth=3 dir=tx\nreorder=1 nth=4 dir=tx");
  arrive({9, 9});
  begin();
  EXPECT_EQ(received(), "9 9 ");
  send({1, 2, 3, 4, 5, 6});
  end();
  EXPECT_EQ(sent(), "1 3 3 5 4 6 ");
}

TEST_F(FaultPortTest, rx__drop_duplicate_and_reorder_within_a_burst) {
  make("drop nth=2 dir=rx\nduplicate nth=3 dir=rx\nreorder=1 nth=4 dir=rx");
  arrive({1, 2, 3, 4, 5, 6});
  begin();
  EXPECT_EQ(received(), "1 3 3 5 4 6 ");
}

TEST_F(FaultPortTest, tx__delayed_frame_leaves_in_the_turn_that_its_deadline_asks_for) {
  make("delay=5us nth=1");
  begin();
  send({1, 2});
  end();
  EXPECT_EQ(sent(), "2 ");
  EXPECT_EQ(port->next_deadline(), now + microseconds(5));
  now = now + microseconds(5);
  begin();
  EXPECT_EQ(sent(), "1 ");
  end();
  EXPECT_EQ(port->next_deadline(), kNever);
}

TEST_F(FaultPortTest, rx__delayed_frame_arrives_in_the_turn_that_its_deadline_asks_for) {
  make("delay=5us nth=1");
  arrive({1, 2});
  begin();
  EXPECT_EQ(received(), "2 ");
  EXPECT_EQ(port->next_deadline(), now + microseconds(5));
  now = now + microseconds(5);
  begin();
  EXPECT_EQ(received(), "1 ");
}

TEST_F(FaultPortTest, tx__corrupted_frame_is_changed) {
  make("corrupt=136 nth=1");  // a bit of the IPv4 header's length
  begin();
  send({1});
  EXPECT_EQ(sent(), "bad IP header ");
}

TEST_F(FaultPortTest, rx__frames_live_on_when_the_inner_port_has_taken_them_back) {
  make("reorder=1 nth=1");
  arrive({1, 2, 3});
  begin();
  std::array<RxFrame, 8> frames;
  ASSERT_EQ(port->rx_burst(frames), 3u);
  EXPECT_EQ(inner->arrived.size(), 0u);
  std::string out;
  for (std::size_t i = 0; i < 3; ++i) out += psn_of({frames[i].data, frames[i].size});
  EXPECT_EQ(out, "2 1 3 ");
}

TEST_F(FaultPortTest, rx__more_than_the_burst_holds_comes_with_the_next) {
  make("duplicate=2");
  arrive({1, 2});
  begin();
  EXPECT_EQ(received(4), "1 1 1 2 ");
  EXPECT_LE(port->next_deadline(), now);
  EXPECT_EQ(received(4), "2 2 ");
  EXPECT_EQ(port->next_deadline(), kNever);
}

TEST_F(FaultPortTest, tx__no_room_within_is_no_room_here) {
  make("");
  begin();
  inner->room = 2;
  EXPECT_EQ(send({1, 2, 3}), 2u);
  EXPECT_EQ(send({4}), 0u);
  EXPECT_EQ(sent(), "1 2 ");
}

TEST_F(FaultPortTest, tx__copies_that_find_no_room_go_before_later_frames) {
  make("duplicate=2 nth=1");
  begin();
  inner->room = 2;
  EXPECT_EQ(send({1, 2}), 2u);
  EXPECT_EQ(sent(), "1 1 ");
  EXPECT_EQ(send({3}), 0u);
  EXPECT_GT(port->next_deadline(), now);
  EXPECT_NE(port->next_deadline(), kNever);
  inner->room = 10;
  EXPECT_EQ(send({3}), 1u);
  end();
  EXPECT_EQ(sent(), "1 2 3 ");
}

TEST_F(FaultPortTest, tx__long_delay_is_back_pressure) {
  make("delay=1s", 4);
  begin();
  EXPECT_EQ(send({1, 2, 3, 4, 5, 6}), 4u);
  EXPECT_EQ(send({5}), 0u);
  now = now + seconds(1);
  begin();
  EXPECT_EQ(sent(), "1 2 3 4 ");
  EXPECT_EQ(send({5}), 1u);
}

TEST_F(FaultPortTest, rx__line_that_is_full_leaves_frames_within) {
  make("delay=1s", 2);
  arrive({1, 2, 3});
  begin();
  EXPECT_EQ(received(), "");
  EXPECT_EQ(inner->arrived.size(), 1u);
  now = now + seconds(1);
  begin();
  EXPECT_EQ(received(), "1 2 ");
}

TEST_F(FaultPortTest, release_route__frames_held_for_it_are_gone) {
  make("delay=1us");
  begin();
  send({1});
  port->release_route(&inner->route);
  EXPECT_EQ(inner->released, 1);
  EXPECT_EQ(port->next_deadline(), kNever);
}

TEST_F(FaultPortTest, the_rest__is_the_inner_port_s) {
  make("");
  EXPECT_EQ(port->attributes().link_mtu_bytes, 1234u);
  EXPECT_EQ(port->acquire_route({}, {}), &inner->route);
  EXPECT_TRUE(port->peer_stalled(inner->route));
  EXPECT_TRUE(port->wait({}));
  begin();
  EXPECT_EQ(inner->turns, 1);
  end();
  EXPECT_EQ(inner->turns, 0);
  inner->deadline = Instant{77};
  EXPECT_EQ(port->next_deadline(), Instant{77});
}

}  // namespace
}  // namespace roci
