// What the stack must do with each frame, and no more: one copy and one CRC a side. The limits of `roci bench` do it.
#pragma once

#include <isa-l/crc.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace roci::bench {

inline constexpr std::uint32_t kHeaderBytes = 54;  ///< Ethernet, IPv4, UDP, BTH
inline constexpr std::uint32_t kIcrcBytes = 4;
inline constexpr std::uint32_t kEthernetBytes = 14;

inline std::uint32_t crc32_of(const std::byte* data, std::size_t bytes) {
  return crc32_gzip_refl(0, reinterpret_cast<const unsigned char*>(data), bytes);
}

/// Memory of an application, which frames are made from and copied into.
class FrameWork {
 public:
  static constexpr std::size_t kMemoryBytes = 65536;

  /// All but the headers.
  void fill(std::byte* frame, std::uint32_t bytes) {
    const std::uint32_t payload = bytes - kHeaderBytes - kIcrcBytes;
    std::memcpy(frame + kHeaderBytes, next_memory(payload), payload);
    const std::uint32_t check = crc32_of(frame + kEthernetBytes, bytes - kEthernetBytes - kIcrcBytes);
    std::memcpy(frame + bytes - kIcrcBytes, &check, sizeof check);
  }
  /// False if it is not as it was filled.
  bool take(const std::byte* frame, std::uint32_t bytes) {
    const std::uint32_t payload = bytes - kHeaderBytes - kIcrcBytes;
    std::uint32_t check;
    std::memcpy(&check, frame + bytes - kIcrcBytes, sizeof check);
    if (check != crc32_of(frame + kEthernetBytes, bytes - kEthernetBytes - kIcrcBytes)) return false;
    std::memcpy(next_memory(payload), frame + kHeaderBytes, payload);
    return true;
  }

 private:
  std::byte* next_memory(std::uint32_t bytes) {
    if (offset_ + bytes > memory_.size()) offset_ = 0;
    std::byte* at = memory_.data() + offset_;
    offset_ += bytes;
    return at;
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(kMemoryBytes);
  std::size_t offset_ = 0;
};

}  // namespace roci::bench
