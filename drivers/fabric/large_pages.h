// Memory that a simulation touches all over: on huge pages where the system gives them, since most of what it costs to
// look something up in it is otherwise the way from page to page.
#pragma once

#include <cstddef>
#include <span>

namespace roci::fabric {

/// Of zeros. Owner: one thread at a time.
class LargePages {
 public:
  /// Ends the process if there is no memory, as new does.
  explicit LargePages(std::size_t bytes);
  ~LargePages();
  LargePages(LargePages&& other) noexcept;
  LargePages& operator=(LargePages&&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;  ///< in mapped_, from the start of a huge page on
  std::span<std::byte> mapped_;
};

}  // namespace roci::fabric
