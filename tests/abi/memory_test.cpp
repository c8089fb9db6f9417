#include <sys/mman.h>

#include <array>
#include <utility>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

class Memory : public Client {
 protected:
  int register_error(void* memory, std::size_t bytes, int access) {
    return error_of<Mr>([&] { return ibv_reg_mr(pd(), memory, bytes, access); });
  }

  alignas(4096) std::array<std::uint8_t, 8192> memory_{};
};

class ShimMemory : public Memory {};

TEST_F(Memory, dealloc_pd__in_use_is_busy) {
  Pd own(ibv_alloc_pd(context()));
  {
    const Mr mr(ibv_reg_mr(own.get(), memory_.data(), memory_.size(), 0));
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
  }
}

TEST_F(Memory, reg_mr__describes_the_region) {
  const Mr mr = make_mr(memory_.data(), memory_.size());
  EXPECT_EQ(mr->context, context());
  EXPECT_EQ(mr->pd, pd());
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->length, memory_.size());
}

TEST_F(Memory, reg_mr__keys_of_two_regions_differ) {
  const Mr first = make_mr(memory_.data(), memory_.size());
  const Mr second = make_mr(memory_.data(), memory_.size());
  EXPECT_NE(first->lkey, second->lkey);
  EXPECT_NE(first->rkey, second->rkey);
}

TEST_F(Memory, reg_mr__remote_changes_need_local_write) {
  EXPECT_EQ(register_error(memory_.data(), memory_.size(), IBV_ACCESS_REMOTE_WRITE), EINVAL);
  EXPECT_EQ(register_error(memory_.data(), memory_.size(), IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
  EXPECT_EQ(register_error(memory_.data(), memory_.size(), IBV_ACCESS_REMOTE_READ), 0);
}

TEST_F(Memory, reg_mr__unknown_rights_are_refused) {
  EXPECT_EQ(register_error(memory_.data(), memory_.size(), 1 << 19), EINVAL);
  EXPECT_EQ(register_error(memory_.data(), memory_.size(), static_cast<int>(1u << 31)), EINVAL);
}

TEST_F(Memory, reg_mr__on_demand_paging_is_refused_where_the_device_does_not_say_it) {
  ibv_device_attr_ex attr{};
  ASSERT_EQ(ibv_query_device_ex(context(), nullptr, &attr), 0);
  if ((attr.odp_caps.general_caps & IBV_ODP_SUPPORT) != 0) GTEST_SKIP() << "the device does on-demand paging";
  EXPECT_NE(register_error(memory_.data(), memory_.size(), IBV_ACCESS_ON_DEMAND), 0);
}

TEST_F(Memory, reg_mr__optional_rights_are_ignored) {
  for (int bit = 20; bit < 30; ++bit)
    EXPECT_EQ(register_error(memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE | 1 << bit), 0) << "bit " << bit;
}

TEST_F(Memory, reg_mr__range_must_not_wrap) {
  EXPECT_EQ(register_error(memory_.data(), SIZE_MAX, IBV_ACCESS_LOCAL_WRITE), EINVAL);
}

TEST_F(Memory, reg_mr__memory_that_is_not_there_is_a_bad_address) {
  void* hole = mmap(nullptr, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(hole, MAP_FAILED);
  ASSERT_EQ(munmap(hole, 8192), 0);
  EXPECT_EQ(register_error(hole, 4096, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(register_error(nullptr, 4096, 0), EFAULT);
}

TEST_F(Memory, reg_mr__memory_without_the_rights_is_a_bad_address) {
  void* page = mmap(nullptr, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  EXPECT_EQ(register_error(page, 8192, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  EXPECT_EQ(register_error(page, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE), EFAULT);
  EXPECT_EQ(register_error(page, 8192, IBV_ACCESS_REMOTE_READ), 0);
  ASSERT_EQ(mprotect(page, 4096, PROT_READ | PROT_WRITE), 0);
  EXPECT_EQ(register_error(page, 4096, IBV_ACCESS_LOCAL_WRITE), 0);
  EXPECT_EQ(register_error(page, 4097, IBV_ACCESS_LOCAL_WRITE), EFAULT);
  ASSERT_EQ(mprotect(page, 8192, PROT_NONE), 0);
  EXPECT_EQ(register_error(page, 8192, 0), EFAULT);
  munmap(page, 8192);
}

TEST_F(Memory, reg_mr_iova__keys_speak_of_another_address) {
  constexpr std::uint64_t kIova = 0x7000'0000'0000;
  const Mr mr(ibv_reg_mr_iova(pd(), memory_.data(), memory_.size(), kIova, int{IBV_ACCESS_LOCAL_WRITE}));
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->length, memory_.size());
}

TEST_F(ShimMemory, reg_mr_iova__range_must_not_wrap) {
  EXPECT_EQ(error_of<Mr>([&] {
              return ibv_reg_mr_iova(pd(), memory_.data(), memory_.size(), UINT64_MAX - 100,
                                     int{IBV_ACCESS_LOCAL_WRITE});
            }),
            EINVAL);
}

TEST_F(Memory, rereg_mr__refuses_before_it_changes_anything) {
  const Mr mr = make_mr(memory_.data(), memory_.size());
  const auto refused = [&](int flags, ibv_pd* to, void* addr, std::size_t bytes, int access) {
    errno = 0;
    EXPECT_EQ(ibv_rereg_mr(mr.get(), flags, to, addr, bytes, access), IBV_REREG_MR_ERR_INPUT);
    return errno;
  };
  EXPECT_EQ(refused(1 << 10, nullptr, nullptr, 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr, 4096, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, memory_.data(), 0, 0), EINVAL);
  EXPECT_EQ(refused(IBV_REREG_MR_CHANGE_PD, pd(), nullptr, 0, IBV_ACCESS_LOCAL_WRITE), EINVAL);
  EXPECT_EQ(mr->addr, memory_.data());
  EXPECT_EQ(mr->pd, pd());
}

TEST_F(ShimMemory, rereg_mr__moves_to_another_domain) {
  const Pd other(ibv_alloc_pd(context()));
  const Mr mr = make_mr(memory_.data(), memory_.size());
  ASSERT_EQ(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_PD, other.get(), nullptr, 0, 0), 0);
  EXPECT_EQ(mr->pd, other.get());
  EXPECT_EQ(ibv_dealloc_pd(other.get()), EBUSY);
}

TEST_F(ShimMemory, rereg_mr__rights_are_checked) {
  const Mr mr = make_mr(memory_.data(), memory_.size());
  EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, IBV_ACCESS_REMOTE_WRITE), 0);
  EXPECT_EQ(errno, EINVAL);
}

/// NCCL takes EBADF for a yes.
TEST_F(ShimMemory, reg_dmabuf_mr__is_not_supported) {
  EXPECT_EQ(error_of<Mr>([&] { return ibv_reg_dmabuf_mr(pd(), 0, 4096, 0, -1, 0); }), EOPNOTSUPP);
}

/// What is made on a parent domain is of the PD under it; both, and its thread domain, are in use by each other.
TEST_F(ShimMemory, parent_domain__is_another_handle_of_its_pd) {
  Pd own(ibv_alloc_pd(context()));
  ibv_td_init_attr thread{};
  ibv_td* td = ibv_alloc_td(context(), &thread);
  ASSERT_NE(td, nullptr);
  ibv_parent_domain_init_attr attr{};
  attr.pd = own.get();
  attr.td = td;
  Pd parent(ibv_alloc_parent_domain(context(), &attr));
  ASSERT_NE(parent, nullptr);
  EXPECT_EQ(ibv_dealloc_pd(own.get()), EBUSY);
  EXPECT_EQ(ibv_dealloc_td(td), EBUSY);
  {
    const Mr mr(ibv_reg_mr(parent.get(), memory_.data(), memory_.size(), 0));
    ASSERT_NE(mr, nullptr);
    EXPECT_EQ(mr->pd, parent.get());
  }
  parent.reset();
  EXPECT_EQ(ibv_dealloc_td(td), 0);
  EXPECT_EQ(ibv_dealloc_pd(own.release()), 0);
}

TEST_F(ShimMemory, parent_domain__wrong_attributes) {
  const auto refused = [&](const ibv_parent_domain_init_attr& wrong) {
    ibv_parent_domain_init_attr attr = wrong;
    return error_of<Pd>([&] { return ibv_alloc_parent_domain(context(), &attr); });
  };
  ibv_parent_domain_init_attr attr{};
  EXPECT_EQ(refused(attr), EINVAL) << "no PD";
  attr.pd = pd();
  attr.comp_mask = 1u << 20;
  EXPECT_EQ(refused(attr), EINVAL) << "an unknown bit";
  attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS;
  EXPECT_EQ(refused(attr), EINVAL) << "allocators that are none";
  ibv_td_init_attr thread{.comp_mask = 1};
  errno = 0;
  EXPECT_EQ(ibv_alloc_td(context(), &thread), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(ShimMemory, parent_domain__is_not_made_of_another) {
  ibv_parent_domain_init_attr attr{};
  attr.pd = pd();
  const Pd parent(ibv_alloc_parent_domain(context(), &attr));
  ASSERT_NE(parent, nullptr);
  attr.pd = parent.get();
  EXPECT_EQ(error_of<Pd>([&] { return ibv_alloc_parent_domain(context(), &attr); }), EINVAL);
}

template <class Made>
void expect_unsupported(Made* made) {
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(std::exchange(errno, 0), EOPNOTSUPP);
}

TEST_F(ShimMemory, objects_not_made__say_so) {
  expect_unsupported(ibv_alloc_null_mr(pd()));
  ibv_alloc_dm_attr device_memory{};
  device_memory.length = 64;
  expect_unsupported(ibv_alloc_dm(context(), &device_memory));
  ibv_counters_init_attr counters{};
  expect_unsupported(ibv_create_counters(context(), &counters));
  ibv_xrcd_init_attr xrcd{};
  expect_unsupported(ibv_open_xrcd(context(), &xrcd));
  ibv_wq_init_attr wq{};
  expect_unsupported(ibv_create_wq(context(), &wq));
  expect_unsupported(ibv_import_device(-1));
  ibv_sge sge{};
  EXPECT_EQ(ibv_advise_mr(pd(), IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EOPNOTSUPP);
}

}  // namespace
}  // namespace roci::abi
