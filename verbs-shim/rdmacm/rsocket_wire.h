// What rsockets say to each other, as Linux's do (rdma-core, docs/rsocket): private data of the connection, immediate
// data of each message, and the tables that peers write into each other's memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "stack/base/bytes.h"

namespace roci::shim {

/// A piece of memory that the peer may write to. In tables it lies as the host keeps it: both ends are little-endian,
/// which they tell each other.
struct RemoteBuffer {
  std::uint64_t addr = 0;
  std::uint32_t key = 0;
  std::uint32_t length = 0;  ///< bytes
};
static_assert(sizeof(RemoteBuffer) == 16);

/// A mapping that the peer has offered: bytes from `offset` of its choice are at `buffer`.
struct RemoteMapping {
  std::uint64_t offset = 0;
  RemoteBuffer buffer;
};
static_assert(sizeof(RemoteMapping) == 24);

/// Buffers that a peer knows at a time: it fills one while the other is announced.
inline constexpr std::size_t kTargetBuffers = 2;

/// Private data of REQ and REP.
struct RsocketHello {
  static constexpr std::size_t kSize = 40;
  static constexpr std::uint8_t kVersion = 1;
  static constexpr std::uint8_t kFlagBigEndian = 1;
  static constexpr std::uint8_t kFlagMappings = 2;

  std::uint8_t version = kVersion;
  std::uint8_t flags = kFlagMappings;
  std::uint16_t credits = 0;       ///< messages that the sender of this is ready to receive
  std::uint8_t mapping_slots = 0;  ///< encoded, see decode_slots()
  RemoteBuffer table;              ///< of kTargetBuffers buffers, `length` entries; then of mappings
  RemoteBuffer data;               ///< the first buffer

  static RsocketHello read(const std::byte* p) {
    return {.version = std::to_integer<std::uint8_t>(p[0]),
            .flags = std::to_integer<std::uint8_t>(p[1]),
            .credits = load_be<std::uint16_t>(p + 2),
            .mapping_slots = std::to_integer<std::uint8_t>(p[7]),
            .table = read_buffer(p + 8),
            .data = read_buffer(p + 24)};
  }
  void write(std::byte* p) const {
    std::memset(p, 0, kSize);
    p[0] = std::byte{version};
    p[1] = std::byte{flags};
    store_be<std::uint16_t>(p + 2, credits);
    p[7] = std::byte{mapping_slots};
    write_buffer(table, p + 8);
    write_buffer(data, p + 24);
  }

 private:
  static RemoteBuffer read_buffer(const std::byte* p) {
    return {load_be<std::uint64_t>(p), load_be<std::uint32_t>(p + 8), load_be<std::uint32_t>(p + 12)};
  }
  static void write_buffer(const RemoteBuffer& buffer, std::byte* p) {
    store_be<std::uint64_t>(p, buffer.addr);
    store_be<std::uint32_t>(p + 8, buffer.key);
    store_be<std::uint32_t>(p + 12, buffer.length);
  }
};

/// Numbers of mappings above 128 travel in units of 256, told by the top bit.
constexpr std::uint8_t encode_slots(std::uint32_t slots) {
  return static_cast<std::uint8_t>(slots <= 128 ? slots : 0x80 | slots >> 8);
}
constexpr std::uint32_t decode_slots(std::uint8_t code) { return code <= 128 ? code : (code & 0x7fu) << 8; }

/// The immediate data of a message: what it is in 3 bits, and a number.
enum class RsocketOp : std::uint8_t {
  kData = 0,     ///< the number is its bytes, which lie in the target buffer
  kWrite = 2,    ///< never on the wire: a write into a mapping
  kCredits = 4,  ///< the number is the last message that may be sent; a new target buffer may have come with it
  kMapping = 6,  ///< the number is the slot that was written
  kControl = 7,
};

enum class RsocketControl : std::uint32_t { kDisconnect = 0, kKeepalive = 1, kShutdown = 2 };

struct RsocketMessage {
  RsocketOp op{};
  std::uint32_t number = 0;  ///< 29 bits

  static constexpr RsocketMessage decode(std::uint32_t value) {
    return {static_cast<RsocketOp>(value >> 29), value & 0x1fff'ffff};
  }
  constexpr std::uint32_t encode() const { return static_cast<std::uint32_t>(op) << 29 | (number & 0x1fff'ffff); }
};

}  // namespace roci::shim
