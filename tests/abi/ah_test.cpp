#include <cstring>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class AddressHandle : public Client {
 protected:
  ibv_ah_attr good() const { return good_attributes(IBV_QPS_RTR).ah_attr; }
  int create_error(ibv_ah_attr attr) {
    return error_of<Ah>([&] { return ibv_create_ah(pd(), &attr); });
  }
};

TEST_F(AddressHandle, create_ah__path_to_the_port_itself) {
  ibv_ah_attr attr = good();
  const Ah ah(ibv_create_ah(pd(), &attr));
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ah->context, context());
  EXPECT_EQ(ah->pd, pd());
}

TEST_F(AddressHandle, create_ah__without_grh_is_invalid) {
  ibv_ah_attr attr = good();
  attr.is_global = 0;
  EXPECT_EQ(create_error(attr), EINVAL);
}

TEST_F(AddressHandle, create_ah__other_port_is_invalid) {
  ibv_ah_attr attr = good();
  attr.port_num = 0;
  EXPECT_EQ(create_error(attr), EINVAL);
  attr.port_num = 2;
  EXPECT_EQ(create_error(attr), EINVAL);
}

TEST_F(AddressHandle, create_ah__source_out_of_the_table_is_invalid) {
  ibv_port_attr port{};
  ASSERT_EQ(ibv_query_port(context(), 1, &port), 0);
  if (port.gid_tbl_len > 255) GTEST_SKIP() << "no index is out of a table of " << port.gid_tbl_len;
  ibv_ah_attr attr = good();
  attr.grh.sgid_index = static_cast<std::uint8_t>(port.gid_tbl_len);
  EXPECT_EQ(create_error(attr), EINVAL);
}

TEST_F(AddressHandle, dealloc_pd__in_use_is_busy) {
  Pd own(ibv_alloc_pd(context()));
  ibv_ah_attr attr = good();
  const Ah ah(ibv_create_ah(own.get(), &attr));
  ASSERT_NE(ah, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
}

/// The 40 bytes in front of a datagram that came over IPv4: the header is in the second half (RoCE annex A17.4.5.2).
ibv_grh ipv4_header(const std::uint8_t* source, const std::uint8_t* destination) {
  ibv_grh grh{};
  auto* ip = reinterpret_cast<std::uint8_t*>(&grh) + 20;
  ip[0] = 0x45;
  ip[1] = 0x10;
  ip[8] = 63;
  ip[9] = 17;
  std::memcpy(ip + 12, source, 4);
  std::memcpy(ip + 16, destination, 4);
  // RFC 791: the ones' complement sum of the header's 16-bit words.
  std::uint32_t sum = 0;
  for (int i = 0; i < 20; i += 2) sum += static_cast<std::uint32_t>(ip[i] << 8 | ip[i + 1]);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = ~((sum & 0xffff) + (sum >> 16));
  ip[10] = static_cast<std::uint8_t>(sum >> 8);
  ip[11] = static_cast<std::uint8_t>(sum);
  return grh;
}

TEST_F(AddressHandle, init_ah_from_wc__turns_an_ipv4_datagram_round) {
  const std::uint8_t sender[4] = {198, 18, 0, 77};
  ibv_grh grh = ipv4_header(sender, gid().raw + 12);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_ah_attr attr{};
  ASSERT_EQ(ibv_init_ah_from_wc(context(), 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(attr.is_global, 1);
  EXPECT_EQ(attr.port_num, 1);
  EXPECT_EQ(attr.grh.sgid_index, gid_index());
  EXPECT_EQ(attr.grh.traffic_class, 0x10);
  EXPECT_EQ(std::memcmp(attr.grh.dgid.raw, gid().raw, 12), 0);
  EXPECT_EQ(std::memcmp(attr.grh.dgid.raw + 12, sender, 4), 0);
}

/// The first half is undefined then, and may look like an IPv6 header.
TEST_F(AddressHandle, init_ah_from_wc__checksum_tells_ipv4_from_ipv6) {
  const std::uint8_t sender[4] = {198, 18, 0, 77};
  ibv_grh grh = ipv4_header(sender, gid().raw + 12);
  std::memset(&grh, 0x66, 20);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  ibv_ah_attr attr{};
  ASSERT_EQ(ibv_init_ah_from_wc(context(), 1, &wc, &grh, &attr), 0);
  EXPECT_EQ(std::memcmp(attr.grh.dgid.raw + 12, sender, 4), 0);
}

TEST_F(AddressHandle, create_ah_from_wc__datagram_for_somebody_else_is_an_error) {
  const std::uint8_t sender[4] = {198, 18, 0, 77};
  const std::uint8_t other[4] = {198, 18, 99, 99};
  ibv_grh grh = ipv4_header(sender, other);
  ibv_wc wc{};
  wc.wc_flags = IBV_WC_GRH;
  EXPECT_NE(error_of<Ah>([&] { return ibv_create_ah_from_wc(pd(), &wc, &grh, 1); }), 0);
}

TEST_F(AddressHandle, create_ah_from_wc__without_grh_is_an_error) {
  ibv_grh grh{};
  ibv_wc wc{};
  EXPECT_NE(error_of<Ah>([&] { return ibv_create_ah_from_wc(pd(), &wc, &grh, 1); }), 0);
}

}  // namespace
}  // namespace roci::abi
