// All access to the application's memory goes through here, so that a page which the application took away is an error
// of one request and not the end of the process.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roci {

/// Copies `bytes` where one side is user memory. False if a page of it is gone: the destination is then partly written.
bool copy_user(void* destination, const void* source, std::size_t bytes);

/// Atomics on user memory; `address` is a multiple of 8. False if the page is gone.
bool user_fetch_add64(std::uint64_t* address, std::uint64_t add, std::uint64_t* original);
bool user_compare_swap64(std::uint64_t* address, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original);

}  // namespace roci
