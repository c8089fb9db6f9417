#include "tests/clients/loaded_verbs.h"

#include <dlfcn.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace allreduce {

void fail(const char* what) {
  std::fprintf(stderr, "allreduce: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

void require(bool good, const char* what) {
  if (!good) fail(what);
}

namespace {

template <class Function>
void fetch(void* library, Function* function, const char* name, const char* version) {
  *function = reinterpret_cast<Function>(dlvsym(library, name, version));
}

}  // namespace

LoadedVerbs load_verbs() {
  void* library = dlopen("libibverbs.so", RTLD_NOW);
  if (library == nullptr) library = dlopen("libibverbs.so.1", RTLD_NOW);
  if (library == nullptr) fail(dlerror());
  LoadedVerbs verbs;
#define ALLREDUCE_FETCH(name, result, parameters)    \
  fetch(library, &verbs.name, #name, "IBVERBS_1.1"); \
  if (verbs.name == nullptr) fail(#name " is missing");
  ALLREDUCE_FUNCTIONS(ALLREDUCE_FETCH)
#undef ALLREDUCE_FETCH
  fetch(library, &verbs.ibv_reg_mr_iova2, "ibv_reg_mr_iova2", "IBVERBS_1.8");
  fetch(library, &verbs.ibv_reg_dmabuf_mr, "ibv_reg_dmabuf_mr", "IBVERBS_1.12");
  fetch(library, &verbs.ibv_query_ece, "ibv_query_ece", "IBVERBS_1.10");
  fetch(library, &verbs.ibv_set_ece, "ibv_set_ece", "IBVERBS_1.10");
  return verbs;
}

bool is_of_mlx5(ibv_device* device) {
  void* library = dlopen("libmlx5.so", RTLD_NOW);
  if (library == nullptr) library = dlopen("libmlx5.so.1", RTLD_NOW);
  if (library == nullptr) return false;
  bool (*is_supported)(ibv_device*) = nullptr;
  fetch(library, &is_supported, "mlx5dv_is_supported", "MLX5_1.8");
  return is_supported != nullptr && is_supported(device);
}

}  // namespace allreduce
