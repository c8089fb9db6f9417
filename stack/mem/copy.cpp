#include "stack/mem/copy.h"

#include <cstring>

namespace roci {

bool copy_user(void* destination, const void* source, std::size_t bytes) {
  std::memcpy(destination, source, bytes);
  return true;
}

bool user_fetch_add64(std::uint64_t* address, std::uint64_t add, std::uint64_t* original) {
  *original = __atomic_fetch_add(address, add, __ATOMIC_SEQ_CST);
  return true;
}

bool user_compare_swap64(std::uint64_t* address, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original) {
  *original = compare;
  __atomic_compare_exchange_n(address, original, swap, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return true;
}

}  // namespace roci
