// How programs find the libraries, other than by being linked to them.
#include <dlfcn.h>

#include <string_view>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

struct Close {
  void operator()(void* library) const { dlclose(library); }
};
using Library = std::unique_ptr<void, Close>;

Library load(const char* name) { return Library(dlopen(name, RTLD_NOW | RTLD_LOCAL)); }

TEST(ShimLoading, dlopen__development_name_is_the_same_library) {
  const Library ours = load("libibverbs.so.1");
  ASSERT_NE(ours, nullptr) << dlerror();
  EXPECT_EQ(load("libibverbs.so"), ours);
  const Library connections = load("librdmacm.so.1");
  ASSERT_NE(connections, nullptr) << dlerror();
  EXPECT_EQ(load("librdmacm.so"), connections);
}

/// NCCL never links: it asks for these by version.
TEST(Loading, dlvsym__finds_what_nccl_asks_for) {
  const Library library = load("libibverbs.so.1");
  ASSERT_NE(library, nullptr) << dlerror();
  for (const char* name :
       {"ibv_get_device_list", "ibv_free_device_list", "ibv_get_device_name", "ibv_open_device", "ibv_close_device",
        "ibv_get_async_event", "ibv_ack_async_event",  "ibv_query_device",    "ibv_query_port",  "ibv_query_gid",
        "ibv_query_qp",        "ibv_alloc_pd",         "ibv_dealloc_pd",      "ibv_reg_mr",      "ibv_dereg_mr",
        "ibv_create_cq",       "ibv_destroy_cq",       "ibv_create_qp",       "ibv_modify_qp",   "ibv_destroy_qp",
        "ibv_fork_init",       "ibv_event_type_str"})
    EXPECT_NE(dlvsym(library.get(), name, "IBVERBS_1.1"), nullptr) << name;
  EXPECT_NE(dlvsym(library.get(), "ibv_reg_mr_iova2", "IBVERBS_1.8"), nullptr);
  EXPECT_NE(dlvsym(library.get(), "ibv_reg_dmabuf_mr", "IBVERBS_1.12"), nullptr);
  EXPECT_NE(dlvsym(library.get(), "ibv_query_ece", "IBVERBS_1.10"), nullptr);
  EXPECT_NE(dlvsym(library.get(), "ibv_set_ece", "IBVERBS_1.10"), nullptr);
}

/// perftest and UCX load these, and ask of each device if it is theirs. They look behind the public structure.
TEST(Loading, providers__load_and_do_not_take_the_device_for_theirs) {
  struct Provider {
    const char* library;
    const char* question;
  };
  const Context context = open_device();
  ASSERT_NE(context, nullptr);
  int asked = 0;
  for (const Provider& provider :
       {Provider{"libmlx5.so.1", "mlx5dv_is_supported"}, Provider{"libmlx4.so.1", nullptr}, {"libefa.so.1", nullptr}}) {
    const Library library = load(provider.library);
    if (library == nullptr && std::string_view(dlerror()).find("cannot open shared object") != std::string_view::npos)
      continue;
    ASSERT_NE(library, nullptr) << provider.library;
    ++asked;
    if (provider.question == nullptr) continue;
    const auto is_supported = reinterpret_cast<bool (*)(ibv_device*)>(dlsym(library.get(), provider.question));
    ASSERT_NE(is_supported, nullptr);
    EXPECT_FALSE(is_supported(context->device));
  }
  if (asked == 0) GTEST_SKIP() << "no provider library is installed here";
}

TEST(Loading, dlopen__connection_manager_has_all_it_needs) { EXPECT_NE(load("librdmacm.so.1"), nullptr) << dlerror(); }

}  // namespace
}  // namespace roci::abi
