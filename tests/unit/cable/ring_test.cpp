#include "drivers/cable/ring.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

namespace roci::cable {
namespace {

struct RingTest : ::testing::Test {
  RingTest() : memory(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, kRingBytes)), &std::free) {
    std::memset(memory.get(), 0, kRingBytes);
    producer.attach(memory.get(), 1, 2, 0xffff'fff0u);
    consumer.attach(memory.get());
  }
  void send(std::uint32_t value) {
    ASSERT_EQ(producer.room(1), 1u);
    std::memcpy(producer.frame(0), &value, sizeof value);
    producer.publish(sizeof value);
  }
  /// The value of the next frame; UINT32_MAX if there is none.
  std::uint32_t receive() {
    RxFrame frame;
    if (!consumer.take(&frame)) return UINT32_MAX;
    std::uint32_t value = 0;
    std::memcpy(&value, frame.data, sizeof value);
    return frame.size == sizeof value ? value : UINT32_MAX - 1;
  }

  std::unique_ptr<std::byte, decltype(&std::free)> memory;
  Producer producer;
  Consumer consumer;
};

TEST_F(RingTest, take__frames_come_in_order_over_many_laps_and_a_sequence_that_wraps) {
  for (std::uint32_t i = 0; i < 5 * kSlots; ++i) {
    send(i);
    if (i % 3 == 0) send(++i);
    EXPECT_FALSE(consumer.empty());
    for (std::uint32_t value = receive(); value != UINT32_MAX; value = receive()) EXPECT_LE(value, i);
    EXPECT_TRUE(consumer.empty());
    consumer.release();
  }
  EXPECT_TRUE(producer.all_consumed());
}

TEST_F(RingTest, room__full_ring_has_none_until_the_consumer_gives_slots_back) {
  for (std::uint32_t i = 0; i < kSlots; ++i) send(i);
  EXPECT_EQ(producer.room(1), 0u);
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(receive(), i);
  EXPECT_EQ(producer.room(1), 0u);
  consumer.release();
  EXPECT_EQ(producer.room(64), 10u);
}

TEST_F(RingTest, room__consumer_that_tells_of_frames_never_sent_is_not_believed) {
  for (std::uint32_t i = 0; i < kSlots; ++i) send(i);
  for (const std::uint32_t lie : {kSlots + 1, 0x8000'0000u, 0xffff'ffffu}) {
    ring_header(memory.get()).consumed.store(lie);
    EXPECT_EQ(producer.room(1), 0u);
    EXPECT_TRUE(producer.broken());
  }
}

TEST_F(RingTest, take__frame_longer_than_a_slot_has_size_zero) {
  for (const std::uint32_t lie : {kMaxFrameBytes + 1, 0xffff'ffffu}) {
    send(7);
    slot_header(ring_slot(memory.get(), lie == 0xffff'ffffu ? 1 : 0)).frame_bytes = lie;
    RxFrame frame;
    ASSERT_TRUE(consumer.take(&frame));
    EXPECT_EQ(frame.size, 0u);
  }
}

TEST_F(RingTest, take__sequence_of_another_lap_is_no_frame) {
  send(1);
  EXPECT_EQ(receive(), 1u);
  auto& sequence = slot_header(ring_slot(memory.get(), 1)).sequence;
  for (const std::uint32_t lie : {0xffff'fff0u, 0xffff'fff2u, 0xffff'fff1u + kSlots, 0u}) {
    sequence.store(lie);
    EXPECT_TRUE(consumer.empty());
  }
}

}  // namespace
}  // namespace roci::cable
