// What the device says of itself by whichever way it is asked: verbs, or the files that Linux has of devices.
#pragma once

#include <cstdint>
#include <string_view>

namespace roci::shim {

inline constexpr const char* kFirmware = "0.1.0";
inline constexpr std::uint32_t kVendorId = 0x726f;
inline constexpr std::uint32_t kVendorPartId = 1;
/// The name of the device's node in /dev/infiniband.
inline constexpr const char* kNodeName = "uverbs0";
inline constexpr std::uint8_t kActiveWidth = 2;   ///< as verbs says it: 4 lanes
inline constexpr std::uint8_t kActiveSpeed = 32;  ///< as verbs says it: 25 Gb/s a lane
inline constexpr const char* kRate = "100 Gb/sec (4X EDR)";

/// A locally administered EUI-64 made of the device's name, in host order: known before any link is joined.
constexpr std::uint64_t guid_of(std::string_view name) {
  std::uint32_t hash = 2'166'136'261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16'777'619u;
  return 0x0200'00ff'fe00'0000u | (hash & 0xff'ffff);
}

}  // namespace roci::shim
