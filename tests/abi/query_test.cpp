#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class Query : public Client {
 protected:
  ibv_port_attr port() {
    ibv_port_attr attr{};
    EXPECT_EQ(ibv_query_port(context(), 1, &attr), 0);
    return attr;
  }
};

class ShimQuery : public Query {};

TEST_F(Query, query_device__limits_are_positive) {
  for (const int limit : {limits().max_qp, limits().max_qp_wr, limits().max_sge, limits().max_cq, limits().max_cqe,
                          limits().max_mr, limits().max_pd, limits().max_qp_rd_atom, limits().max_qp_init_rd_atom,
                          limits().max_ah, limits().max_srq, limits().max_srq_wr, limits().max_srq_sge})
    EXPECT_GT(limit, 0);
  EXPECT_EQ(limits().phys_port_cnt, 1);
  EXPECT_EQ(limits().atomic_cap, IBV_ATOMIC_HCA);
}

TEST_F(Query, query_device_ex__agrees_with_query_device) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context(), nullptr, &attr), 0);
  EXPECT_EQ(attr.orig_attr.max_qp, limits().max_qp);
  EXPECT_EQ(attr.orig_attr.node_guid, limits().node_guid);
  EXPECT_EQ(attr.phys_port_cnt_ex, 1u);
}

TEST_F(Query, query_device_ex__input_asks_for_nothing_known) {
  const ibv_query_device_ex_input input{.comp_mask = 1};
  ibv_device_attr_ex attr{};
  EXPECT_EQ(ibv_query_device_ex(context(), &input, &attr), EINVAL);
}

TEST_F(Query, query_device_ex__slot_writes_no_more_than_it_is_given) {
  constexpr std::size_t kOldBytes = offsetof(ibv_device_attr_ex, rss_caps);
  std::array<std::uint8_t, sizeof(ibv_device_attr_ex)> bytes;
  bytes.fill(0xa5);
  verbs_context* extended = verbs_get_ctx(context());
  ASSERT_EQ(
      extended->query_device_ex(context(), nullptr, reinterpret_cast<ibv_device_attr_ex*>(bytes.data()), kOldBytes), 0);
  EXPECT_TRUE(std::all_of(bytes.begin() + kOldBytes, bytes.end(), [](std::uint8_t byte) { return byte == 0xa5; }));
}

TEST_F(Query, query_port__is_an_active_ethernet_port) {
  const ibv_port_attr attr = port();
  EXPECT_EQ(attr.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(attr.lid, 0);
  EXPECT_EQ(attr.phys_state, 5);
  EXPECT_GT(attr.gid_tbl_len, 0);
  EXPECT_GE(attr.pkey_tbl_len, 1);
  EXPECT_GE(attr.max_msg_sz, 1u << 20);
  EXPECT_GE(attr.active_mtu, IBV_MTU_256);
  EXPECT_LE(attr.active_mtu, attr.max_mtu);
}

TEST_F(Query, query_port__has_no_other_port) {
  ibv_port_attr attr{};
  EXPECT_EQ(ibv_query_port(context(), 0, &attr), EINVAL);
  EXPECT_EQ(ibv_query_port(context(), 2, &attr), EINVAL);
}

/// The structure was four bytes shorter when programs that call the symbol were compiled.
TEST_F(Query, query_port__symbol_writes_the_old_structure) {
  constexpr std::size_t kOldBytes = 48;
  std::array<std::uint8_t, sizeof(ibv_port_attr)> bytes;
  bytes.fill(0xa5);
  const auto old = reinterpret_cast<int (*)(ibv_context*, std::uint8_t, void*)>(
      dlvsym(RTLD_DEFAULT, "ibv_query_port", "IBVERBS_1.1"));
  ASSERT_NE(old, nullptr);
  ASSERT_EQ(old(context(), 1, bytes.data()), 0);
  EXPECT_TRUE(std::all_of(bytes.begin() + kOldBytes, bytes.end(), [](std::uint8_t byte) { return byte == 0xa5; }));
  EXPECT_EQ(reinterpret_cast<const ibv_port_attr*>(bytes.data())->state, IBV_PORT_ACTIVE);
}

TEST_F(Query, query_gid__every_row_of_the_table_answers) {
  for (int i = 0; i < port().gid_tbl_len; ++i) {
    ibv_gid gid{};
    EXPECT_EQ(ibv_query_gid(context(), 1, i, &gid), 0) << i;
  }
}

TEST_F(Query, query_gid__past_the_end_is_an_error) {
  ibv_gid gid{};
  const int past = port().gid_tbl_len;
  EXPECT_NE(error_of_minus_1([&] { return ibv_query_gid(context(), 1, past, &gid); }), 0);
  EXPECT_NE(error_of_minus_1([&] { return ibv_query_gid(context(), 1, -1, &gid); }), 0);
  EXPECT_NE(error_of_minus_1([&] { return ibv_query_gid(context(), 2, 0, &gid); }), 0);
}

TEST_F(Query, query_gid_ex__agrees_with_query_gid) {
  ibv_gid_entry entry{};
  ASSERT_EQ(ibv_query_gid_ex(context(), 1, gid_index(), &entry, 0), 0);
  EXPECT_EQ(std::memcmp(entry.gid.raw, gid().raw, sizeof entry.gid.raw), 0);
  EXPECT_EQ(entry.gid_index, gid_index());
  EXPECT_EQ(entry.port_num, 1u);
}

TEST_F(Query, query_gid_ex__refuses) {
  ibv_gid_entry entry{};
  const auto past = static_cast<std::uint32_t>(port().gid_tbl_len);
  EXPECT_EQ(ibv_query_gid_ex(context(), 1, past, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context(), 0, 0, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context(), 2, 0, &entry, 0), EINVAL);
  EXPECT_EQ(ibv_query_gid_ex(context(), 1, 0, &entry, 1), EINVAL);
}

TEST_F(ShimQuery, query_gid_ex__all_rows_are_roce_v2) {
  for (int i = 0; i < port().gid_tbl_len; ++i) {
    ibv_gid_entry entry{};
    ASSERT_EQ(ibv_query_gid_ex(context(), 1, static_cast<std::uint32_t>(i), &entry, 0), 0);
    EXPECT_EQ(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
  }
}

/// Its numbers of the types are those of sysfs, not of the public enum.
TEST_F(Query, query_gid_type__private_symbol_says_1_for_roce_v2) {
  const auto query = reinterpret_cast<int (*)(ibv_context*, std::uint8_t, unsigned, int*)>(
      dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", "IBVERBS_PRIVATE_34"));
  ASSERT_NE(query, nullptr);
  int type = -1;
  ASSERT_EQ(query(context(), 1, gid_index(), &type), 0);
  EXPECT_EQ(type, 1);
}

TEST_F(Query, query_gid_table__gives_all_rows_or_fails) {
  std::array<ibv_gid_entry, 64> rows{};
  const ssize_t count = ibv_query_gid_table(context(), rows.data(), rows.size(), 0);
  ASSERT_GT(count, 0);
  const auto is_ours = [this](const ibv_gid_entry& row) { return row.gid_index == gid_index() && row.port_num == 1; };
  const auto found = std::find_if(rows.begin(), rows.begin() + count, is_ours);
  ASSERT_NE(found, rows.begin() + count);
  EXPECT_EQ(std::memcmp(found->gid.raw, gid().raw, sizeof found->gid.raw), 0);
  EXPECT_LT(ibv_query_gid_table(context(), rows.data(), static_cast<std::size_t>(count) - 1, 0), 0);
  EXPECT_EQ(ibv_query_gid_table(context(), rows.data(), rows.size(), 1), -EINVAL);
}

TEST_F(Query, query_pkey__first_is_the_default_one) {
  __be16 pkey = 0;
  ASSERT_EQ(ibv_query_pkey(context(), 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xffff);
  EXPECT_EQ(ibv_get_pkey_index(context(), 1, pkey), 0);
}

TEST_F(Query, query_pkey__past_the_end_is_an_error) {
  __be16 pkey = 0;
  const int past = port().pkey_tbl_len;
  EXPECT_NE(error_of_minus_1([&] { return ibv_query_pkey(context(), 1, past, &pkey); }), 0);
  EXPECT_NE(error_of_minus_1([&] { return ibv_query_pkey(context(), 1, -1, &pkey); }), 0);
  EXPECT_NE(error_of_minus_1([&] { return ibv_query_pkey(context(), 2, 0, &pkey); }), 0);
}

TEST_F(Query, get_pkey_index__unknown_key_is_an_error) { EXPECT_LT(ibv_get_pkey_index(context(), 1, 0x1234), 0); }

TEST_F(ShimQuery, query_device__part_number_can_be_given) {
  setenv("ROCI_VENDOR_ID", "0x02c9", 1);
  setenv("ROCI_VENDOR_PART_ID", "4119", 1);
  ibv_device_attr attr{};
  EXPECT_EQ(ibv_query_device(context(), &attr), 0);
  unsetenv("ROCI_VENDOR_ID");
  unsetenv("ROCI_VENDOR_PART_ID");
  EXPECT_EQ(attr.vendor_id, 0x02c9u);
  EXPECT_EQ(attr.vendor_part_id, 4119u);
}

TEST_F(ShimQuery, query_rt_values__clock_runs) {
  ibv_values_ex first{.comp_mask = IBV_VALUES_MASK_RAW_CLOCK, .raw_clock = {}};
  ibv_values_ex second = first;
  ASSERT_EQ(ibv_query_rt_values_ex(context(), &first), 0);
  ASSERT_EQ(ibv_query_rt_values_ex(context(), &second), 0);
  EXPECT_TRUE(
      second.raw_clock.tv_sec > first.raw_clock.tv_sec ||
      (second.raw_clock.tv_sec == first.raw_clock.tv_sec && second.raw_clock.tv_nsec >= first.raw_clock.tv_nsec));
}

TEST(ShimForkInit, fork_init__needs_nothing) {
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_NE(ibv_is_fork_initialized(), IBV_FORK_DISABLED);
}

}  // namespace
}  // namespace roci::abi
