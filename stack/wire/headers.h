// The headers of a RoCE v2 packet above UDP, each as a plain value: `read` takes it from bytes, `write` puts it there.
//
// `read` and `write` are total: the caller has made sure that kSize bytes are there. `parse` checks that itself. All
// bits are kept, reserved ones too, so that what is read and written again is byte-equal.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "stack/base/bytes.h"
#include "stack/base/types.h"
#include "stack/wire/aeth.h"
#include "stack/wire/headers_l3.h"

namespace roci {

/// A value of type T if `bytes` holds one.
template <class T>
std::optional<T> parse_header(std::span<const std::byte> bytes) {
  if (bytes.size() < T::kSize) return std::nullopt;
  return T::read(bytes.data());
}

/// Base Transport Header (IBTA 9.2).
struct Bth {
  static constexpr std::size_t kSize = 12;

  std::uint8_t opcode = 0;
  bool solicited = false;
  bool mig_req = false;
  std::uint8_t pad_count = 0;  ///< 0 to 3
  std::uint8_t tver = 0;       ///< 4 bits
  std::uint16_t pkey = 0;
  bool fecn = false;
  bool becn = false;
  std::uint8_t reserved6 = 0;  ///< 6 bits
  Qpn dest_qpn;
  bool ack_req = false;
  std::uint8_t reserved7 = 0;  ///< 7 bits
  Psn psn;

  static Bth read(const std::byte* p) {
    const auto byte1 = std::to_integer<std::uint8_t>(p[1]);
    const auto byte4 = std::to_integer<std::uint8_t>(p[4]);
    const auto byte8 = std::to_integer<std::uint8_t>(p[8]);
    return {.opcode = std::to_integer<std::uint8_t>(p[0]),
            .solicited = (byte1 & 0x80) != 0,
            .mig_req = (byte1 & 0x40) != 0,
            .pad_count = static_cast<std::uint8_t>(byte1 >> 4 & 3),
            .tver = static_cast<std::uint8_t>(byte1 & 0xf),
            .pkey = load_be<std::uint16_t>(p + 2),
            .fecn = (byte4 & 0x80) != 0,
            .becn = (byte4 & 0x40) != 0,
            .reserved6 = static_cast<std::uint8_t>(byte4 & 0x3f),
            .dest_qpn = Qpn{load_be24(p + 5)},
            .ack_req = (byte8 & 0x80) != 0,
            .reserved7 = static_cast<std::uint8_t>(byte8 & 0x7f),
            .psn = Psn(load_be24(p + 9))};
  }
  void write(std::byte* p) const {
    const auto bit = [](bool value, int place) { return std::uint32_t{value} << place; };
    store_be<std::uint32_t>(p, std::uint32_t{opcode} << 24 | bit(solicited, 23) | bit(mig_req, 22) |
                                   std::uint32_t{pad_count} << 20 | std::uint32_t{tver} << 16 | pkey);
    store_be<std::uint32_t>(
        p + 4, bit(fecn, 31) | bit(becn, 30) | std::uint32_t{reserved6} << 24 | (dest_qpn.value & Qpn::kMask));
    store_be<std::uint32_t>(p + 8, bit(ack_req, 31) | std::uint32_t{reserved7} << 24 | psn.value());
  }
  bool operator==(const Bth&) const = default;
};

/// RDMA Extended Transport Header (IBTA 9.3.3).
struct Reth {
  static constexpr std::size_t kSize = 16;

  std::uint64_t va = 0;
  RKey rkey;
  std::uint32_t dma_length = 0;  ///< bytes

  static Reth read(const std::byte* p) {
    return {load_be<std::uint64_t>(p), RKey{load_be<std::uint32_t>(p + 8)}, load_be<std::uint32_t>(p + 12)};
  }
  void write(std::byte* p) const {
    store_be<std::uint64_t>(p, va);
    store_be<std::uint32_t>(p + 8, rkey.value);
    store_be<std::uint32_t>(p + 12, dma_length);
  }
  bool operator==(const Reth&) const = default;
};

/// Atomic Extended Transport Header (IBTA 9.3.4).
struct AtomicEth {
  static constexpr std::size_t kSize = 28;

  std::uint64_t va = 0;
  RKey rkey;
  std::uint64_t swap_add = 0;
  std::uint64_t compare = 0;

  static AtomicEth read(const std::byte* p) {
    return {load_be<std::uint64_t>(p), RKey{load_be<std::uint32_t>(p + 8)}, load_be<std::uint64_t>(p + 12),
            load_be<std::uint64_t>(p + 20)};
  }
  void write(std::byte* p) const {
    store_be<std::uint64_t>(p, va);
    store_be<std::uint32_t>(p + 8, rkey.value);
    store_be<std::uint64_t>(p + 12, swap_add);
    store_be<std::uint64_t>(p + 20, compare);
  }
  bool operator==(const AtomicEth&) const = default;
};

/// Atomic ACK Extended Transport Header (IBTA 9.3.5).
struct AtomicAckEth {
  static constexpr std::size_t kSize = 8;

  std::uint64_t original = 0;

  static AtomicAckEth read(const std::byte* p) { return {load_be<std::uint64_t>(p)}; }
  void write(std::byte* p) const { store_be<std::uint64_t>(p, original); }
  bool operator==(const AtomicAckEth&) const = default;
};

/// Immediate data (IBTA 9.3.6): opaque to the stack, so kept as the four bytes lie in memory, which is how verbs
/// applications hold it.
struct ImmDt {
  static constexpr std::size_t kSize = 4;

  std::uint32_t raw = 0;

  static ImmDt read(const std::byte* p) {
    ImmDt value;
    std::memcpy(&value.raw, p, kSize);
    return value;
  }
  void write(std::byte* p) const { std::memcpy(p, &raw, kSize); }
  bool operator==(const ImmDt&) const = default;
};

/// Invalidate Extended Transport Header (IBTA 9.3.7).
struct Ieth {
  static constexpr std::size_t kSize = 4;

  RKey rkey;

  static Ieth read(const std::byte* p) { return {RKey{load_be<std::uint32_t>(p)}}; }
  void write(std::byte* p) const { store_be<std::uint32_t>(p, rkey.value); }
  bool operator==(const Ieth&) const = default;
};

/// Datagram Extended Transport Header (IBTA 9.3.2).
struct Deth {
  static constexpr std::size_t kSize = 8;

  std::uint32_t qkey = 0;
  std::uint8_t reserved8 = 0;
  Qpn src_qpn;

  static Deth read(const std::byte* p) {
    return {load_be<std::uint32_t>(p), std::to_integer<std::uint8_t>(p[4]), Qpn{load_be24(p + 5)}};
  }
  void write(std::byte* p) const {
    store_be<std::uint32_t>(p, qkey);
    p[4] = std::byte{reserved8};
    store_be24(p + 5, src_qpn.value);
  }
  bool operator==(const Deth&) const = default;
};

/// XRC Extended Transport Header (IBTA annex A14).
struct XrcEth {
  static constexpr std::size_t kSize = 4;

  std::uint8_t reserved8 = 0;
  std::uint32_t srqn = 0;  ///< 24 bits

  static XrcEth read(const std::byte* p) { return {std::to_integer<std::uint8_t>(p[0]), load_be24(p + 1)}; }
  void write(std::byte* p) const {
    p[0] = std::byte{reserved8};
    store_be24(p + 1, srqn);
  }
  bool operator==(const XrcEth&) const = default;
};

/// What follows the BTH of a CNP: 16 reserved bytes, sent as zero (IBTA A17.9.3).
struct CnpReserved {
  static constexpr std::size_t kSize = 16;

  std::array<std::byte, kSize> bytes{};

  static CnpReserved read(const std::byte* p) {
    CnpReserved value;
    std::memcpy(value.bytes.data(), p, kSize);
    return value;
  }
  void write(std::byte* p) const { std::memcpy(p, bytes.data(), kSize); }
  bool operator==(const CnpReserved&) const = default;
};

}  // namespace roci
