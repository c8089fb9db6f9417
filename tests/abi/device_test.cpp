#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <set>
#include <string>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

using DeviceList = std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)>;

std::set<std::string> entries_of(const char* folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

TEST(Device, get_device_list__counts_and_ends_with_null) {
  int count = -1;
  const DeviceList list(ibv_get_device_list(&count), ibv_free_device_list);
  ASSERT_NE(list, nullptr);
  ASSERT_GE(count, 1);
  for (int i = 0; i < count; ++i) EXPECT_NE(list.get()[i], nullptr);
  EXPECT_EQ(list.get()[count], nullptr);
}

TEST(Device, get_device_list__takes_no_count) {
  const DeviceList list(ibv_get_device_list(nullptr), ibv_free_device_list);
  EXPECT_NE(list, nullptr);
}

TEST(Device, get_device_list__is_a_channel_adapter_of_infiniband_transport) {
  const DeviceList list(ibv_get_device_list(nullptr), ibv_free_device_list);
  const ibv_device* device = list.get()[0];
  EXPECT_EQ(device->node_type, IBV_NODE_CA);
  EXPECT_EQ(device->transport_type, IBV_TRANSPORT_IB);
  EXPECT_STREQ(ibv_get_device_name(list.get()[0]), device->name);
  EXPECT_STRNE(device->name, "");
  EXPECT_STRNE(device->dev_name, "");
  EXPECT_EQ(std::string(device->ibdev_path), std::string("/sys/class/infiniband/") + device->name);
  EXPECT_NE(ibv_get_device_guid(list.get()[0]), 0u);
}

TEST(Device, get_device_list__starts_no_thread_and_opens_no_file) {
  const auto threads = entries_of("/proc/self/task");
  const auto files = entries_of("/proc/self/fd");
  const DeviceList list(ibv_get_device_list(nullptr), ibv_free_device_list);
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), files);
}

TEST(Device, open_device__gives_contexts_of_their_own) {
  const Context first = open_device();
  const Context second = open_device();
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first, second);
  EXPECT_EQ(first->device, second->device);
  EXPECT_NE(first->async_fd, second->async_fd);
}

TEST(Device, open_device__can_follow_the_last_close) {
  for (int i = 0; i < 3; ++i) {
    const Context context = open_device();
    ASSERT_NE(context, nullptr);
    EXPECT_EQ(error_of<Pd>([&] { return ibv_alloc_pd(context.get()); }), 0);
  }
}

TEST(Device, close_device__leaves_no_thread_and_no_file) {
  open_device();
  const auto threads = entries_of("/proc/self/task");
  const auto files = entries_of("/proc/self/fd");
  open_device();
  EXPECT_EQ(entries_of("/proc/self/task"), threads);
  EXPECT_EQ(entries_of("/proc/self/fd"), files);
}

/// A program that ends in a hurry closes the device with all that is on it.
TEST(Device, close_device__forgives_what_was_not_destroyed) {
  Context context = open_device();
  ibv_pd* pd = ibv_alloc_pd(context.get());
  ibv_cq* cq = ibv_create_cq(context.get(), 4, nullptr, nullptr, 0);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  attr.qp_type = IBV_QPT_RC;
  ASSERT_NE(ibv_create_qp(pd, &attr), nullptr);
  context.reset();
  context = open_device();
  EXPECT_NE(context, nullptr);
}

TEST(Device, open_device__without_descriptors_left_fails) {
  const Context first = open_device();
  ASSERT_NE(first, nullptr);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  // The lowest free descriptor becomes the first that is too high.
  const int free_fd = dup(first->async_fd);
  close(free_fd);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(free_fd), .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  errno = 0;
  const Context second(ibv_open_device(first->device));
  const int error = errno;
  const ibv_comp_channel* channel = ibv_create_comp_channel(first.get());
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(second, nullptr);
  EXPECT_EQ(error, EMFILE);
  EXPECT_EQ(channel, nullptr);
}

TEST(Device, device__outlives_the_list_while_a_context_is_open) {
  const Context context = open_device();
  EXPECT_STRNE(ibv_get_device_name(context->device), "");
}

TEST(Device, context__has_descriptors_and_a_completion_vector) {
  const Context context = open_device();
  EXPECT_GE(context->num_comp_vectors, 1);
  EXPECT_NE(fcntl(context->async_fd, F_GETFD), -1);
  EXPECT_NE(fcntl(context->cmd_fd, F_GETFD), -1);
}

TEST(Device, context__is_extended_and_as_long_as_the_header_says) {
  const Context context = open_device();
  verbs_context* extended = verbs_get_ctx(context.get());
  ASSERT_NE(extended, nullptr);
  EXPECT_EQ(extended->sz, sizeof(verbs_context));
}

/// Calls through the tables are not checked by the header's functions: each must lead somewhere.
TEST(ShimDevice, context__has_no_empty_slot) {
  const Context context = open_device();
  const auto expect_full = [](const void* table, std::size_t bytes, std::set<std::size_t> not_functions) {
    for (std::size_t offset = 0; offset < bytes; offset += sizeof(void*)) {
      void* slot = nullptr;
      std::memcpy(&slot, static_cast<const std::byte*>(table) + offset, sizeof slot);
      EXPECT_TRUE(slot != nullptr || not_functions.contains(offset)) << "at byte " << offset;
    }
  };
  expect_full(&context->ops, sizeof context->ops, {});
  expect_full(verbs_get_ctx(context.get()), offsetof(verbs_context, sz),
              {offsetof(verbs_context, priv), offsetof(verbs_context, _ABI_placeholder3)});
}

}  // namespace
}  // namespace roci::abi
