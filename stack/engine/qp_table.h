// QPN to QP: the top 6 bits are the port's block, the rest an index into two levels of pages made on demand.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "stack/base/types.h"

namespace roci {

class Qp;

/// Owner: whoever holds the baton.
class QpTable {
 public:
  static constexpr std::uint32_t kIndexBits = 18;
  static constexpr std::uint32_t kIndexCount = 1u << kIndexBits;
  /// QP0 and QP1 are special on every port (IBTA 3.5.3).
  static constexpr std::uint32_t kFirstIndex = 2;

  explicit QpTable(std::uint32_t block) : base_(block << kIndexBits) {}

  /// A free QPN, looked for from a random index on. The caller keeps fewer than kIndexCount QPs.
  Qpn pick(std::uint64_t random) const;
  void insert(Qpn qpn, Qp* qp);
  void erase(Qpn qpn);

  Qp* find(Qpn qpn) const {
    const std::uint32_t index = qpn.value ^ base_;
    if (index >= kIndexCount) return nullptr;
    const Page* page = pages_[index >> kPageBits].get();
    return page == nullptr ? nullptr : (*page)[index & kPageMask];
  }

  std::uint32_t size() const { return size_; }

 private:
  static constexpr std::uint32_t kPageBits = 6;
  static constexpr std::uint32_t kPageMask = (1u << kPageBits) - 1;
  using Page = std::array<Qp*, 1u << kPageBits>;

  std::uint32_t base_;
  std::uint32_t size_ = 0;
  std::array<std::unique_ptr<Page>, (kIndexCount >> kPageBits)> pages_;
};

}  // namespace roci
