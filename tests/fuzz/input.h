// The bytes of one run, and the steps that they stand for. An input is a World's settings (see world.h) and then steps:
// a byte of kind, QP and region, then what the kind needs. All integers are little-endian.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace roci::fuzz {

enum class StepKind : std::uint8_t {
  kFrame,     ///< FrameRepair bits, PSN offset, 16 bits of length, the frame
  kTemplate,  ///< a packet from a few numbers, see FrameTemplate
  kSend,      ///< opcode, flags, a second region, 16 bits of offset, 16 of length
  kReceive,   ///< a second region, 16 bits of offset, 16 of length; to the QP's queue or its SRQ
  kTime,      ///< 255: until the next deadline; else that power of two, modulo 36, in nanoseconds
  kModify,    ///< a state, or a change of attributes
  kMemory,    ///< what becomes of a region
  kLink,      ///< room for frames, and whether the peer stands still
};

/// Bits of what is put right in a frame before it is fed, so that it gets past the first checks.
enum FrameRepair : std::uint8_t {
  kRepairAddresses = 1,  ///< headers up to UDP, lengths and destination QP
  kRepairPsn = 2,        ///< the PSN expected, for a response the oldest outstanding one, plus the step's offset
  kRepairMemory = 4,     ///< R_Key and address of RETH or AtomicETH point into the step's region
  kRepairIcrc = 8,
  kFarPsn = 16,  ///< the offset counts 2^16 PSNs
  kCutEnd = 32,  ///< last of all, up to 16 bytes are taken off the end, as the offset's low bits say
  kRepairAll = kRepairAddresses | kRepairPsn | kRepairMemory | kRepairIcrc,
};

/// First byte of a step.
constexpr std::uint8_t step_byte(StepKind kind, std::uint32_t qp, std::uint32_t region) {
  return static_cast<std::uint8_t>(static_cast<std::uint32_t>(kind) | qp << 3 | region << 5);
}

/// Takes values off the front; zeros once nothing is left.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool empty() const { return bytes_.empty(); }
  std::uint8_t u8() {
    if (bytes_.empty()) return 0;
    const std::uint8_t value = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return value;
  }
  std::uint16_t u16() {
    const std::uint8_t low = u8();
    return static_cast<std::uint16_t>(low | u8() << 8);
  }
  /// Up to `count` bytes, fewer if fewer are left.
  std::span<const std::uint8_t> take(std::size_t count) {
    const auto taken = bytes_.first(std::min(count, bytes_.size()));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// The other direction, for inputs made from captures.
class InputWriter {
 public:
  void u8(std::uint32_t value) { bytes_.push_back(static_cast<std::uint8_t>(value)); }
  void u16(std::uint32_t value) {
    u8(value & 0xff);
    u8(value >> 8 & 0xff);
  }
  void put(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) u8(std::to_integer<std::uint32_t>(byte));
  }
  std::size_t size() const { return bytes_.size(); }
  std::vector<std::uint8_t> take() { return std::move(bytes_); }

 private:
  std::vector<std::uint8_t> bytes_;
};

}  // namespace roci::fuzz
