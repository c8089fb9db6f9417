// All access to the application's memory goes through here, so that a page which the application took away is an error
// of one request and not the end of the process.
//
// The routines are a few instructions without a stack frame, in one stretch of text. A fault handler that finds the
// program counter within resumes at `resume`, which makes the routine return false. Where no handler is installed
// (in simulation) a fault ends the process, as any other would.
#pragma once

#include <cstddef>
#include <cstdint>

namespace roci {

/// Copies `bytes` where one side is user memory; the two do not overlap. False if a page is gone: the destination is
/// then partly written.
bool copy_user(void* destination, const void* source, std::size_t bytes);

/// Atomics on user memory; `address` is a multiple of 8. False if the page is gone.
bool user_fetch_add64(std::uint64_t* address, std::uint64_t add, std::uint64_t* original);
bool user_compare_swap64(std::uint64_t* address, std::uint64_t compare, std::uint64_t swap, std::uint64_t* original);

/// For the fault handler: the text of the routines, and where to go on.
struct UserAccessText {
  std::uintptr_t begin;
  std::uintptr_t end;
  std::uintptr_t resume;
};
UserAccessText user_access_text();

}  // namespace roci
