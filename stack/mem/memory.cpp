#include "stack/mem/memory.h"

#include "stack/base/assert.h"

namespace roci {
namespace {

// Fields of a window, one by one: `version` tells whether they belong together. Whoever sees a new one sees the odd
// version, too.
template <class Field>
Field load_field(const Field& field) {
  return __atomic_load_n(&field, __ATOMIC_ACQUIRE);
}
template <class Field>
void store_field(Field& field, Field value) {
  __atomic_store_n(&field, value, __ATOMIC_RELEASE);
}

}  // namespace

bool KeyTable::insert(KeyedRange* range, std::uint32_t random) {
  std::uint32_t index = 0;
  if (!free_.empty()) {
    index = free_.back();
    free_.pop_back();
  } else {
    if (ranges_.size() == kMaxKeys) return false;
    index = static_cast<std::uint32_t>(ranges_.size());
    ranges_.push_back(nullptr);
    random_.push_back(0);
  }
  // Never 0, whatever the tag becomes: applications take a zero key for "none".
  constexpr std::uint32_t kMostRandom = (1u << (32 - kRandomShift)) - 1;
  const std::uint32_t last = random_[index];
  std::uint32_t drawn = random >> kRandomShift;
  if (drawn == last) ++drawn;
  if (drawn == 0 || drawn > kMostRandom) drawn = last == 1 ? 2 : 1;
  random_[index] = static_cast<std::uint8_t>(drawn);
  ranges_[index] = range;
  range->key = drawn << kRandomShift | index << kTagBits | (random & kTagMask);
  return true;
}

void KeyTable::erase(const KeyedRange* range) {
  const std::uint32_t index = index_of(range->key);
  ROCI_ASSERT(index < ranges_.size() && ranges_[index] == range);
  ranges_[index] = nullptr;
  free_.push_back(index);
}

Mw* KeyTable::find_window(std::uint32_t key) const {
  const std::uint32_t index = index_of(key);
  if (index >= ranges_.size()) return nullptr;
  KeyedRange* range = ranges_[index];
  if (range == nullptr || range->kind == KeyKind::kRegion) return nullptr;
  return ((key_of(*range) ^ key) & ~kTagMask) == 0 ? static_cast<Mw*>(range) : nullptr;
}

std::byte* KeyTable::check_window(const Mw& window, std::uint32_t key, const Pd* pd, Qpn qpn, std::uint64_t va,
                                  std::uint64_t bytes, std::uint32_t access) {
  KeyedRange seen{.pd = window.pd};
  Qpn through;
  std::uint32_t version = 0;
  do {
    version = window.version.load(std::memory_order_acquire);
    seen.base = load_field(window.base);
    seen.iova = load_field(window.iova);
    seen.length = load_field(window.length);
    seen.access = load_field(window.access);
    seen.key = load_field(window.key);
    through.value = load_field(window.qpn.value);
  } while (version % 2 != 0 || window.version.load(std::memory_order_relaxed) != version);
  if (seen.key != key || (window.kind == KeyKind::kWindow2 && through != qpn)) return nullptr;
  return opened_by(seen, pd, va, bytes, access);
}

void KeyTable::change(Mw& window, const KeyedRange& range, Mr* mr, Qpn qpn) {
  const std::uint32_t version = window.version.load(std::memory_order_relaxed);
  window.version.store(version + 1, std::memory_order_relaxed);
  store_field(window.base, range.base);
  store_field(window.iova, range.iova);
  store_field(window.length, range.length);
  store_field(window.access, range.access);
  store_field(window.key, range.key);
  store_field(window.qpn.value, qpn.value);
  window.mr = mr;
  window.version.store(version + 2, std::memory_order_release);
}

bool KeyTable::bind(const WindowBinding& wanted, const Pd* pd, Qpn qpn) {
  const LockGuard guard(changes_);
  Mw* window = find_window(wanted.window_key);
  // C10-72: window, region and QP are of one domain.
  if (window == nullptr || window->pd != pd) return false;
  const bool is_type_1 = window->kind == KeyKind::kWindow1;
  const bool zero_based = (wanted.access & kAccessZeroBased) != 0;
  // o10-36.2.2: none of type 1 is zero-based. o10-37.2.30: one of type 2 is invalidated before it is bound again.
  if (is_type_1 ? zero_based : window->mr != nullptr) return false;
  if (wanted.length == 0) {
    // o10-37.2.40: that is not the way to unbind one of type 2.
    if (!is_type_1) return false;
    unbind_locked(*window);
    change(*window, {.key = wanted.window_key}, nullptr, {});
    return true;
  }
  const KeyedRange* range = find(wanted.region_key);
  if (range == nullptr || range->kind != KeyKind::kRegion || range->pd != pd) return false;
  // C10-73, C10-74: what the region must allow. The remote rights are the window's own.
  const bool changes = (wanted.access & (kAccessRemoteWrite | kAccessRemoteAtomic)) != 0;
  const std::uint32_t needed = kAccessMwBind | (changes ? kAccessLocalWrite : 0u);
  if ((range->access & needed) != needed || (range->access & kAccessZeroBased) != 0) return false;
  // C10-75.
  std::byte* base = range->translate(wanted.va, wanted.length);
  if (base == nullptr) return false;
  unbind_locked(*window);
  auto* region = static_cast<Mr*>(ranges_[index_of(range->key)]);
  change(*window,
         {.base = base,
          .iova = zero_based ? 0 : wanted.va,
          .length = wanted.length,
          .access = wanted.access,
          .key = wanted.window_key},
         region, qpn);
  ++region->windows;
  ++bound_;
  return true;
}

bool KeyTable::invalidate(std::uint32_t key, const Pd* pd, Qpn qpn) {
  const LockGuard guard(changes_);
  // o10-37.2.26: not one of type 1.
  Mw* window = find_window(key);
  if (window == nullptr || window->key != key || window->kind != KeyKind::kWindow2) return false;
  if (window->mr == nullptr || window->pd != pd || window->qpn != qpn) return false;
  unbind_locked(*window);
  return true;
}

void KeyTable::unbind(Mw& window) {
  const LockGuard guard(changes_);
  unbind_locked(window);
}

void KeyTable::unbind_locked(Mw& window) {
  if (window.mr == nullptr) return;
  --window.mr->windows;
  --bound_;
  change(window, {.key = window.key}, nullptr, {});
}

void KeyTable::unbind_all(Qpn qpn) {
  const LockGuard guard(changes_);
  if (bound_ == 0) return;
  for (KeyedRange* range : ranges_) {
    if (range == nullptr || range->kind != KeyKind::kWindow2) continue;
    auto& window = static_cast<Mw&>(*range);
    if (window.qpn == qpn) unbind_locked(window);
  }
}

}  // namespace roci
