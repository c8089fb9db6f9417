// Memory that tells of a byte read past its end, at once, and of a byte written where none may be, when asked.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace roci::fuzz {

/// Pages between two that nobody may touch. The copy routine and the CRC are assembly that no sanitizer watches, so the
/// page is what catches them.
class GuardedPages {
 public:
  explicit GuardedPages(std::size_t bytes);  ///< a multiple of the page size
  ~GuardedPages();
  GuardedPages(const GuardedPages&) = delete;
  GuardedPages& operator=(const GuardedPages&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  /// The last `count` bytes: what lies behind them cannot be touched.
  std::byte* last(std::size_t count) const { return bytes_.data() + bytes_.size() - count; }

 private:
  std::span<std::byte> bytes_;
};

/// The areas that regions are registered in. Every byte is known, and so is whether the stack may write it.
class GuardedMemory {
 public:
  static constexpr std::size_t kAreas = 4;
  static constexpr std::size_t kAreaBytes = 3 * 4096;

  GuardedMemory();

  /// A known pattern everywhere, and nothing may be written.
  void reset();
  std::byte* last_of(std::size_t area, std::size_t count) const { return areas_[area].last(count); }

  /// Ends the run if a byte has changed that might not.
  void check();
  /// What is there now is what is known; nothing may be written until allow().
  void forbid_all();
  void allow(const std::byte* from, std::size_t count);

 private:
  std::array<GuardedPages, kAreas> areas_;
  std::array<std::vector<std::byte>, kAreas> known_;
  std::array<std::vector<std::byte>, kAreas> allowed_;  ///< 0xff: the byte may be written
};

}  // namespace roci::fuzz
