#include "stack/wire/headers.h"

#include <gtest/gtest.h>

#include <initializer_list>

#include "tests/support/seed.h"
#include "tests/unit/wire/random_header.h"

namespace roci::test {
namespace {

constexpr int kRounds = 2000;

std::vector<std::byte> octets(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

template <class T>
std::vector<std::byte> written(const T& header) {
  std::vector<std::byte> bytes(T::kSize);
  header.write(bytes.data());
  return bytes;
}

template <class T>
class EveryHeader : public testing::Test {};
using Headers = testing::Types<EthernetHeader, VlanTag, Ipv4Header, Ipv6Header, UdpHeader, PfcFrame, Bth, Reth, Aeth,
                               AtomicEth, AtomicAckEth, ImmDt, Ieth, Deth, XrcEth, CnpReserved>;
TYPED_TEST_SUITE(EveryHeader, Headers);

TYPED_TEST(EveryHeader, read__gives_back_what_was_written) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed_note(seed));
  Draw from(seed);
  for (int i = 0; i < kRounds; ++i) {
    TypeParam value;
    draw(from, value);
    ASSERT_EQ(TypeParam::read(written(value).data()), value);
  }
}

TYPED_TEST(EveryHeader, write__gives_back_the_bytes_that_were_read) {
  const std::uint64_t seed = fresh_seed();
  SCOPED_TRACE(seed_note(seed));
  Draw from(seed);
  for (int i = 0; i < kRounds; ++i) {
    const std::vector<std::byte> bytes = from.bytes(TypeParam::kSize);
    ASSERT_EQ(written(TypeParam::read(bytes.data())), bytes);
  }
}

TYPED_TEST(EveryHeader, parse_header__refuses_every_span_that_is_too_short) {
  const std::array<std::byte, TypeParam::kSize + 1> bytes{};
  for (std::size_t size = 0; size <= bytes.size(); ++size)
    EXPECT_EQ(parse_header<TypeParam>(std::span(bytes).first(size)).has_value(), size >= TypeParam::kSize) << size;
}

// The layouts below are drawn from the specifications; those that captures show are checked there as well.

TEST(EthernetHeader, layout) {
  EXPECT_EQ(written(EthernetHeader{{{0x52, 0x54, 0, 0, 0, 0x0a}}, {{2, 0, 198, 18, 0, 1}}, 0x0800}),
            octets({0x52, 0x54, 0, 0, 0, 0x0a, 2, 0, 198, 18, 0, 1, 0x08, 0x00}));
}

TEST(VlanTag, layout__priority_and_identifier) {
  const VlanTag tag = VlanTag::read(octets({0x6f, 0xfe, 0x86, 0xdd}).data());
  EXPECT_EQ(tag.pcp(), 3);
  EXPECT_EQ(tag.vid(), 0xffe);
  EXPECT_EQ(tag.ether_type, 0x86dd);
}

// RFC 1071's rule on a header that many textbooks work through by hand: its checksum is 0xb861.
TEST(Ipv4Header, sum__known_answer) {
  std::vector<std::byte> header = octets({0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11,
                                          0x00, 0x00, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7});
  EXPECT_EQ(static_cast<std::uint16_t>(~ipv4_header_sum(header.data())), 0xb861);
  header[10] = std::byte{0xb8};
  header[11] = std::byte{0x61};
  EXPECT_EQ(ipv4_header_sum(header.data()), 0xffff);
}

TEST(Ipv4Header, sum__carries_twice) {
  EXPECT_EQ(ipv4_header_sum(std::vector<std::byte>(20, std::byte{0xff}).data()), 0xffff);
}

TEST(Ipv6Header, layout__first_word) {
  const std::vector<std::byte> bytes = written(Ipv6Header{.traffic_class = 0x6a, .flow_label = 0xbcdef});
  EXPECT_EQ(std::vector(bytes.begin(), bytes.begin() + 4), octets({0x66, 0xab, 0xcd, 0xef}));
}

TEST(Bth, layout) {
  const Bth bth{.opcode = 0x04,
                .solicited = true,
                .mig_req = false,
                .pad_count = 3,
                .tver = 1,
                .pkey = 0xffff,
                .fecn = false,
                .becn = true,
                .reserved6 = 2,
                .dest_qpn = Qpn{0x010203},
                .ack_req = true,
                .reserved7 = 5,
                .psn = Psn(0xfffefd)};
  EXPECT_EQ(written(bth), octets({0x04, 0xb1, 0xff, 0xff, 0x42, 1, 2, 3, 0x85, 0xff, 0xfe, 0xfd}));
}

TEST(ImmDt, layout__bytes_stay_as_they_lie) {
  const std::vector<std::byte> wire = octets({1, 2, 3, 4});
  const ImmDt immediate = ImmDt::read(wire.data());
  EXPECT_EQ(std::memcmp(&immediate.raw, wire.data(), 4), 0);
}

TEST(Ieth, layout) { EXPECT_EQ(written(Ieth{RKey{0x01020304}}), octets({1, 2, 3, 4})); }

TEST(XrcEth, layout) { EXPECT_EQ(written(XrcEth{.reserved8 = 9, .srqn = 0x010203}), octets({9, 1, 2, 3})); }

TEST(PfcFrame, layout__class_3_paused_for_the_longest_time) {
  PfcFrame frame{.class_enable = 1 << 3};
  frame.time_quanta[3] = 0xffff;
  EXPECT_EQ(written(frame), octets({1, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0}));
}

}  // namespace
}  // namespace roci::test
