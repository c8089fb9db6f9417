#include "stack/wire/icrc.h"

#include <gtest/gtest.h>

#include "stack/wire/headers.h"
#include "tests/unit/wire/random_packet.h"

namespace roci::test {
namespace {

/// CRC-32 of Ethernet, a bit at a time.
std::uint32_t crc32_by_bits(const std::vector<std::byte>& bytes) {
  std::uint32_t crc = 0xffff'ffff;
  for (const std::byte byte : bytes) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc % 2 != 0 ? 0xedb8'8320 : 0);
  }
  return ~crc;
}

std::uint32_t icrc_of(const std::vector<std::byte>& l3, bool is_v4) {
  return compute_icrc(l3.data(), is_v4, static_cast<std::uint32_t>(l3.size()));
}

/// IBTA A17.3.3 in words: the packet as if its changeable fields had been sent as ones, behind eight bytes of ones.
std::uint32_t icrc_by_words(PacketValues packet) {
  packet.traffic_class = 0xff;
  packet.ttl = 0xff;
  packet.flow_label = 0xf'ffff;
  packet.udp_checksum = 0xffff;
  packet.bth.fecn = packet.bth.becn = true;
  packet.bth.reserved6 = 0x3f;
  std::vector<std::byte> l3 = emit_l3(packet);
  if (packet.is_v4) l3[10] = l3[11] = std::byte{0xff};
  std::vector<std::byte> bytes(8, std::byte{0xff});
  bytes.insert(bytes.end(), l3.begin(), l3.end());
  return crc32_by_bits(bytes);
}

TEST(Icrc, crc32_by_bits__the_check_value_of_its_catalogues) {
  std::vector<std::byte> digits;
  for (char digit = '1'; digit <= '9'; ++digit) digits.push_back(static_cast<std::byte>(digit));
  EXPECT_EQ(crc32_by_bits(digits), 0xcbf4'3926);
}

TEST(Icrc, compute__agrees_with_the_words_of_the_specification_at_every_length) {
  Draw from(1);
  for (bool is_v4 : {true, false}) {
    for (std::size_t bytes = 0; bytes <= 4096; bytes < 300 ? bytes += 4 : bytes += 251 * 4) {
      PacketValues packet = random_packet(from, 0x04, is_v4);
      packet.payload = from.bytes(bytes);
      packet.bth.pad_count = 0;
      EXPECT_EQ(icrc_of(emit_l3(packet), is_v4), icrc_by_words(packet)) << bytes << " bytes, IPv4 " << is_v4;
    }
  }
}

TEST(Icrc, compute__does_not_depend_on_alignment) {
  Draw from(2);
  for (bool is_v4 : {true, false}) {
    const std::vector<std::byte> l3 = emit_l3(random_packet(from, 0x06, is_v4));
    for (std::size_t shift = 0; shift < 64; ++shift) {
      std::vector<std::byte> moved(shift);
      moved.insert(moved.end(), l3.begin(), l3.end());
      EXPECT_EQ(compute_icrc(moved.data() + shift, is_v4, static_cast<std::uint32_t>(l3.size())), icrc_of(l3, is_v4));
    }
  }
}

TEST(Icrc, compute__every_bit_counts_that_no_router_may_change) {
  Draw from(3);
  for (bool is_v4 : {true, false}) {
    std::vector<std::byte> l3 = emit_l3(random_packet(from, 0x0b, is_v4));
    const std::uint32_t icrc = icrc_of(l3, is_v4);
    const std::size_t udp = is_v4 ? 20 : 40;
    const auto may_change = [&](std::size_t offset, int bit) {
      if (offset == udp + 6 || offset == udp + 7 || offset == udp + 8 + 4) return true;
      if (is_v4) return offset == 1 || offset == 8 || offset == 10 || offset == 11;
      return (offset == 0 && bit < 4) || (offset >= 1 && offset <= 3) || offset == 7;
    };
    for (std::size_t offset = 0; offset < l3.size(); ++offset) {
      for (int bit = 0; bit < 8; ++bit) {
        l3[offset] ^= static_cast<std::byte>(1 << bit);
        EXPECT_EQ(icrc_of(l3, is_v4) == icrc, may_change(offset, bit)) << "byte " << offset << " bit " << bit;
        l3[offset] ^= static_cast<std::byte>(1 << bit);
      }
    }
  }
}

TEST(Icrc, store__least_significant_byte_first) {
  std::vector<std::byte> bytes(4);
  store_icrc(bytes.data(), 0x0403'0201);
  EXPECT_EQ(bytes, (std::vector{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}}));
  EXPECT_EQ(load_icrc(bytes.data()), 0x0403'0201u);
}

}  // namespace
}  // namespace roci::test
