// Protection domains, memory regions and memory windows: keys to memory, and access checks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "stack/base/spin_lock.h"
#include "stack/base/types.h"
#include "stack/mem/copy.h"

namespace roci {

/// Values of ibv_access_flags.
enum AccessFlag : std::uint32_t {
  kAccessLocalWrite = 1,
  kAccessRemoteWrite = 2,
  kAccessRemoteRead = 4,
  kAccessRemoteAtomic = 8,
  kAccessMwBind = 16,
  kAccessZeroBased = 32,
};

/// Protection domain (IBTA 10.2.3). Owner: control, under the baton.
struct Pd {
  std::uint32_t handle = 0;
  std::uint32_t users = 0;  ///< MRs, MWs, QPs, SRQs and AHs in it
};

/// What a key is of.
enum class KeyKind : std::uint8_t {
  kRegion = 0,
  kWindow1 = 1,  ///< of type 1: any QP of its domain
  kWindow2 = 2,  ///< of type 2B: the QP that it was bound through
};

/// What a key opens. Of a region changed only under all batons; read by the workers.
struct KeyedRange {
  Pd* pd = nullptr;
  std::byte* base = nullptr;  ///< its first byte in this process
  std::uint64_t iova = 0;     ///< the address by which the key speaks of `base`
  std::uint64_t length = 0;   ///< bytes
  std::uint32_t access = 0;   ///< AccessFlag bits
  std::uint32_t key = 0;
  KeyKind kind = KeyKind::kRegion;

  /// The memory behind [va, va + bytes), or null if that is not all within the range.
  std::byte* translate(std::uint64_t va, std::uint64_t bytes) const {
    const std::uint64_t offset = va - iova;
    if (va < iova || offset > length || bytes > length - offset) return nullptr;
    return base + offset;
  }
};

/// Memory region (IBTA 10.6). Its key is L_Key and R_Key alike.
struct Mr : KeyedRange {
  std::uint32_t windows = 0;  ///< bound to it
};

/// Memory window (IBTA 10.6.7.2). While it is not bound its range is empty and has no rights. A worker may change it
/// beside the turns of others, which look at it through KeyTable.
struct Mw : KeyedRange {
  Mr* mr = nullptr;                       ///< bound to; null if it is not
  Qpn qpn;                                ///< bound through
  std::atomic<std::uint32_t> version{0};  ///< odd while it is changed
};

/// What a work request to bind a window asks for (IBTA 11.4.1.1).
struct WindowBinding {
  std::uint32_t window_key = 0;  ///< the R_Key that the window gets, which is its own but for the tag
  std::uint32_t region_key = 0;  ///< L_Key
  std::uint64_t va = 0;          ///< as the region's key speaks of it
  std::uint64_t length = 0;      ///< bytes; a window of type 1 is unbound by 0
  std::uint32_t access = 0;      ///< AccessFlag bits: remote rights, kAccessZeroBased
};

/// Keys to regions and windows. From the lowest bits up a key is a tag, an index, and random bits, so that a stale or
/// guessed key misses. A window's tag is its owner's to choose (IBTA 10.6.7.2.2); a region's is random, too.
/// Owner: control, under all batons; a worker, under its own, binds and invalidates windows. Where there are several, a
/// packet that another has checked just before may still pass a window that is bound anew; never after dereg or
/// dealloc.
class KeyTable {
 public:
  static constexpr std::uint32_t kTagBits = 8;
  static constexpr std::uint32_t kTagMask = (1u << kTagBits) - 1;
  static constexpr std::uint32_t kIndexBits = 17;
  static constexpr std::uint32_t kMaxKeys = 1u << kIndexBits;

  static constexpr std::uint32_t index_of(std::uint32_t key) { return key >> kTagBits & (kMaxKeys - 1); }

  /// Gives `range` a key made of a free index and `random`, not one that the index had before whatever the tag. False
  /// when the table is full.
  bool insert(KeyedRange* range, std::uint32_t random);
  void erase(const KeyedRange* range);

  /// Before any key: what the keys open is checked, but neither read nor written (PortAttributes::elides_payload).
  void elide_payload() { elides_payload_ = true; }
  /// copy_user() of payload.
  bool copy_payload(void* destination, const void* source, std::size_t bytes) const {
    return elides_payload_ || copy_user(destination, source, bytes);
  }

  const KeyedRange* find(std::uint32_t key) const {
    const std::uint32_t index = index_of(key);
    if (index >= ranges_.size()) return nullptr;
    const KeyedRange* range = ranges_[index];
    return range != nullptr && key_of(*range) == key ? range : nullptr;
  }

  /// The memory behind [va, va + bytes) if L_Key `key` opens it to a queue of `pd` with the right `access`; else null
  /// (IBTA 10.6.3.1). A window has no L_Key.
  std::byte* check_local(std::uint32_t key, const Pd* pd, std::uint64_t va, std::uint64_t bytes,
                         std::uint32_t access) const {
    const KeyedRange* range = find(key);
    if (range == nullptr || range->kind != KeyKind::kRegion) return nullptr;
    return opened_by(*range, pd, va, bytes, access);
  }

  /// As check_local(), of an R_Key that came to QP `qpn` (IBTA 10.6.7.2, C10-57).
  std::byte* check_remote(std::uint32_t key, const Pd* pd, Qpn qpn, std::uint64_t va, std::uint64_t bytes,
                          std::uint32_t access) const {
    const KeyedRange* range = find(key);
    if (range == nullptr) return nullptr;
    if (range->kind != KeyKind::kRegion) [[unlikely]]
      return check_window(static_cast<const Mw&>(*range), key, pd, qpn, va, bytes, access);
    return opened_by(*range, pd, va, bytes, access);
  }

  /// Binds a window, asked to by QP `qpn` of `pd`. False, and nothing changed, if a rule forbids it.
  bool bind(const WindowBinding& wanted, const Pd* pd, Qpn qpn);
  /// Invalidates a window of type 2 by its R_Key, asked to by QP `qpn` of `pd` or by its peer; false if that is not a
  /// bound one of theirs.
  bool invalidate(std::uint32_t key, const Pd* pd, Qpn qpn);
  void unbind(Mw& window);
  /// The QP is about to go: unbinds the windows of type 2 that were bound through it.
  void unbind_all(Qpn qpn);

 private:
  static constexpr std::uint32_t kRandomShift = kTagBits + kIndexBits;

  static std::uint32_t key_of(const KeyedRange& range) { return __atomic_load_n(&range.key, __ATOMIC_RELAXED); }
  static std::byte* opened_by(const KeyedRange& range, const Pd* pd, std::uint64_t va, std::uint64_t bytes,
                              std::uint32_t access) {
    if (range.pd != pd || (range.access & access) != access) return nullptr;
    return range.translate(va, bytes);
  }

  [[gnu::cold]] static std::byte* check_window(const Mw& window, std::uint32_t key, const Pd* pd, Qpn qpn,
                                               std::uint64_t va, std::uint64_t bytes, std::uint32_t access);

  /// The window that `key` names whatever its tag, or null.
  Mw* find_window(std::uint32_t key) const;
  /// What a window becomes: its range and key, to what it is bound and through which QP.
  void change(Mw& window, const KeyedRange& range, Mr* mr, Qpn qpn);
  void unbind_locked(Mw& window);

  std::vector<KeyedRange*> ranges_;   ///< by index
  std::vector<std::uint8_t> random_;  ///< the random bits of the latest key of each index
  std::vector<std::uint32_t> free_;
  std::uint32_t bound_ = 0;  ///< windows
  SpinLock changes_;         ///< of windows; whoever looks at one does not take it
  bool elides_payload_ = false;
};

}  // namespace roci
