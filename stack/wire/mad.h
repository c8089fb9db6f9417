// Management datagrams and the messages of the communication manager (IBTA 12.6, 13.4.2, annex A11).
//
// A message is the 256 bytes that travel; fields are read and written in place, so all bits are kept.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "stack/base/bytes.h"
#include "stack/wire/address.h"

namespace roci {

/// QP1 and its Q_Key, which every port has for general services (IBTA 3.9.2).
inline constexpr std::uint32_t kGsiQpn = 1;
inline constexpr std::uint32_t kGsiQkey = 0x8001'0000;

/// Some bits of a big-endian 32-bit word.
struct MadField {
  std::uint16_t word_offset;  ///< bytes from the start of the MAD to the word
  std::uint8_t shift;         ///< of the field's lowest bit, from the word's lowest
  std::uint8_t bits;
};

/// 256 bytes: the common header, then what the class says (IBTA 13.4.2).
struct Mad {
  static constexpr std::size_t kSize = 256;

  std::array<std::byte, kSize> bytes{};

  std::uint32_t get(MadField field) const {
    const auto word = load_be<std::uint32_t>(bytes.data() + field.word_offset);
    return word >> field.shift & mask(field);
  }
  void set(MadField field, std::uint32_t value) {
    std::byte* at = bytes.data() + field.word_offset;
    const std::uint32_t others = load_be<std::uint32_t>(at) & ~(mask(field) << field.shift);
    store_be<std::uint32_t>(at, others | (value & mask(field)) << field.shift);
  }

  std::uint64_t get64(std::size_t offset) const { return load_be<std::uint64_t>(bytes.data() + offset); }
  void set64(std::size_t offset, std::uint64_t value) { store_be<std::uint64_t>(bytes.data() + offset, value); }

  IpAddress gid(std::size_t offset) const {
    IpAddress address;
    std::memcpy(address.bytes.data(), bytes.data() + offset, address.bytes.size());
    return address;
  }
  void set_gid(std::size_t offset, const IpAddress& address) {
    std::memcpy(bytes.data() + offset, address.bytes.data(), address.bytes.size());
  }

  bool operator==(const Mad&) const = default;

 private:
  static constexpr std::uint32_t mask(MadField field) { return field.bits == 32 ? ~0u : (1u << field.bits) - 1; }
};

namespace mad {

inline constexpr std::size_t kHeaderBytes = 24;

inline constexpr MadField kBaseVersion{0, 24, 8};
inline constexpr MadField kManagementClass{0, 16, 8};
inline constexpr MadField kClassVersion{0, 8, 8};
inline constexpr MadField kMethod{0, 0, 8};
inline constexpr std::size_t kTransactionId = 8;
inline constexpr MadField kAttributeId{16, 16, 16};

inline constexpr std::uint8_t kThisBaseVersion = 1;
inline constexpr std::uint8_t kClassCm = 0x07;
inline constexpr std::uint8_t kCmClassVersion = 2;
inline constexpr std::uint8_t kMethodSend = 0x03;

}  // namespace mad

/// The attribute that tells a message of the communication manager (IBTA 12.6, table 98).
enum class CmAttribute : std::uint16_t {
  kReq = 0x10,
  kMra = 0x11,
  kRej = 0x12,
  kRep = 0x13,
  kRtu = 0x14,
  kDreq = 0x15,
  kDrep = 0x16,
  kSidrReq = 0x17,
  kSidrRep = 0x18,
  kLap = 0x19,
  kApr = 0x1a,
};

/// Where a message has room for its consumers, from the start of the MAD.
struct PrivateDataRoom {
  std::size_t offset;
  std::size_t bytes;
};

namespace cm_layout {

inline constexpr std::uint16_t kBody = mad::kHeaderBytes;

/// All but SIDR messages start with both communication ids: the sender's own first.
inline constexpr MadField kLocalId{kBody, 0, 32};
inline constexpr MadField kRemoteId{kBody + 4, 0, 32};

namespace req {
inline constexpr std::size_t kServiceId = kBody + 8;
inline constexpr std::size_t kLocalCaGuid = kBody + 16;
inline constexpr MadField kLocalQkey{kBody + 28, 0, 32};
inline constexpr MadField kLocalQpn{kBody + 32, 8, 24};
inline constexpr MadField kResponderResources{kBody + 32, 0, 8};
inline constexpr MadField kInitiatorDepth{kBody + 36, 0, 8};
inline constexpr MadField kRemoteResponseTimeout{kBody + 40, 3, 5};
inline constexpr MadField kTransportService{kBody + 40, 1, 2};
inline constexpr MadField kFlowControl{kBody + 40, 0, 1};
inline constexpr MadField kStartingPsn{kBody + 44, 8, 24};
inline constexpr MadField kLocalResponseTimeout{kBody + 44, 3, 5};
inline constexpr MadField kRetryCount{kBody + 44, 0, 3};
inline constexpr MadField kPkey{kBody + 48, 16, 16};
inline constexpr MadField kPathMtu{kBody + 48, 12, 4};
inline constexpr MadField kRnrRetryCount{kBody + 48, 8, 3};
inline constexpr MadField kMaxCmRetries{kBody + 48, 4, 4};
inline constexpr MadField kSrq{kBody + 48, 3, 1};
inline constexpr MadField kPrimaryLocalLid{kBody + 52, 16, 16};
inline constexpr MadField kPrimaryRemoteLid{kBody + 52, 0, 16};
inline constexpr std::size_t kPrimaryLocalGid = kBody + 56;
inline constexpr std::size_t kPrimaryRemoteGid = kBody + 72;
inline constexpr MadField kPrimaryFlowLabel{kBody + 88, 12, 20};
inline constexpr MadField kPrimaryPacketRate{kBody + 88, 0, 6};
inline constexpr MadField kPrimaryTrafficClass{kBody + 92, 24, 8};
inline constexpr MadField kPrimaryHopLimit{kBody + 92, 16, 8};
inline constexpr MadField kPrimarySl{kBody + 92, 12, 4};
inline constexpr MadField kPrimaryAckTimeout{kBody + 92, 3, 5};
inline constexpr PrivateDataRoom kPrivateData{kBody + 140, 92};
}  // namespace req

namespace rep {
inline constexpr MadField kLocalQkey{kBody + 8, 0, 32};
inline constexpr MadField kLocalQpn{kBody + 12, 8, 24};
inline constexpr MadField kStartingPsn{kBody + 20, 8, 24};
inline constexpr MadField kResponderResources{kBody + 24, 24, 8};
inline constexpr MadField kInitiatorDepth{kBody + 24, 16, 8};
inline constexpr MadField kTargetAckDelay{kBody + 24, 11, 5};
inline constexpr MadField kFailoverAccepted{kBody + 24, 9, 2};
inline constexpr MadField kFlowControl{kBody + 24, 8, 1};
inline constexpr MadField kRnrRetryCount{kBody + 24, 5, 3};
inline constexpr MadField kSrq{kBody + 24, 4, 1};
inline constexpr std::size_t kLocalCaGuid = kBody + 28;
inline constexpr PrivateDataRoom kPrivateData{kBody + 36, 196};
}  // namespace rep

namespace rtu {
inline constexpr PrivateDataRoom kPrivateData{kBody + 8, 224};
}  // namespace rtu

namespace rej {
inline constexpr MadField kMessageRejected{kBody + 8, 30, 2};
inline constexpr MadField kInfoBytes{kBody + 8, 17, 7};
inline constexpr MadField kReason{kBody + 8, 0, 16};
inline constexpr std::size_t kInfo = kBody + 12;  ///< 72 bytes
inline constexpr PrivateDataRoom kPrivateData{kBody + 84, 148};
}  // namespace rej

namespace mra {
inline constexpr MadField kMessageAcknowledged{kBody + 8, 30, 2};
inline constexpr MadField kServiceTimeout{kBody + 8, 19, 5};
inline constexpr PrivateDataRoom kPrivateData{kBody + 10, 222};
}  // namespace mra

namespace dreq {
inline constexpr MadField kRemoteQpn{kBody + 8, 8, 24};
inline constexpr PrivateDataRoom kPrivateData{kBody + 12, 220};
}  // namespace dreq

namespace drep {
inline constexpr PrivateDataRoom kPrivateData{kBody + 8, 224};
}  // namespace drep

namespace apr {
inline constexpr MadField kInfoBytes{kBody + 8, 24, 8};
inline constexpr MadField kStatus{kBody + 8, 16, 8};
}  // namespace apr

namespace sidr_req {
inline constexpr MadField kRequestId{kBody, 0, 32};
inline constexpr MadField kPkey{kBody + 4, 16, 16};
inline constexpr std::size_t kServiceId = kBody + 8;
inline constexpr PrivateDataRoom kPrivateData{kBody + 16, 216};
}  // namespace sidr_req

namespace sidr_rep {
inline constexpr MadField kRequestId{kBody, 0, 32};
inline constexpr MadField kStatus{kBody + 4, 24, 8};
inline constexpr MadField kInfoBytes{kBody + 4, 16, 8};
inline constexpr MadField kQpn{kBody + 8, 8, 24};
inline constexpr std::size_t kServiceId = kBody + 12;
inline constexpr MadField kQkey{kBody + 20, 0, 32};
inline constexpr PrivateDataRoom kPrivateData{kBody + 96, 136};
}  // namespace sidr_rep

}  // namespace cm_layout

/// An empty message of the communication manager.
inline Mad make_cm_message(CmAttribute attribute, std::uint64_t transaction_id) {
  Mad message;
  message.set(mad::kBaseVersion, mad::kThisBaseVersion);
  message.set(mad::kManagementClass, mad::kClassCm);
  message.set(mad::kClassVersion, mad::kCmClassVersion);
  message.set(mad::kMethod, mad::kMethodSend);
  message.set64(mad::kTransactionId, transaction_id);
  message.set(mad::kAttributeId, static_cast<std::uint32_t>(attribute));
  return message;
}

inline bool is_cm_message(const Mad& message) {
  return message.get(mad::kBaseVersion) == mad::kThisBaseVersion &&
         message.get(mad::kManagementClass) == mad::kClassCm &&
         message.get(mad::kClassVersion) == mad::kCmClassVersion && message.get(mad::kMethod) == mad::kMethodSend;
}

inline CmAttribute cm_attribute(const Mad& message) { return static_cast<CmAttribute>(message.get(mad::kAttributeId)); }

inline std::span<const std::byte> private_data(const Mad& message, PrivateDataRoom room) {
  return std::span(message.bytes).subspan(room.offset, room.bytes);
}
inline std::span<std::byte> private_data(Mad& message, PrivateDataRoom room) {
  return std::span(message.bytes).subspan(room.offset, room.bytes);
}

/// What RDMA IP CM puts in front of the private data of a REQ or SIDR REQ (IBTA annex A11.4).
struct IpCmHeader {
  static constexpr std::size_t kSize = 36;

  std::uint8_t version = 0;            ///< major 4 bits, minor 4 bits: 0.0
  std::uint8_t ip_version = 4;         ///< 4 bits: 4 or 6
  std::uint8_t reserved4 = 0;          ///< 4 bits
  std::uint16_t source_port = 0;       ///< of the consumer, not of UDP
  std::array<std::byte, 16> source{};  ///< an IPv4 address is the last four bytes, the others zero
  std::array<std::byte, 16> destination{};

  static IpCmHeader read(const std::byte* p) {
    const auto byte1 = std::to_integer<std::uint8_t>(p[1]);
    IpCmHeader value{.version = std::to_integer<std::uint8_t>(p[0]),
                     .ip_version = static_cast<std::uint8_t>(byte1 >> 4),
                     .reserved4 = static_cast<std::uint8_t>(byte1 & 0xf),
                     .source_port = load_be<std::uint16_t>(p + 2)};
    std::memcpy(value.source.data(), p + 4, value.source.size());
    std::memcpy(value.destination.data(), p + 20, value.destination.size());
    return value;
  }
  void write(std::byte* p) const {
    p[0] = std::byte{version};
    p[1] = static_cast<std::byte>(ip_version << 4 | reserved4);
    store_be<std::uint16_t>(p + 2, source_port);
    std::memcpy(p + 4, source.data(), source.size());
    std::memcpy(p + 20, destination.data(), destination.size());
  }

  /// The addresses as GIDs: IPv4 in its mapped form.
  IpAddress source_address() const { return as_gid(source); }
  IpAddress destination_address() const { return as_gid(destination); }
  void set_addresses(const IpAddress& from, const IpAddress& to) {
    ip_version = to.is_v4() ? 4 : 6;
    source = as_field(from);
    destination = as_field(to);
  }

  bool operator==(const IpCmHeader&) const = default;

 private:
  IpAddress as_gid(const std::array<std::byte, 16>& field) const {
    if (ip_version == 4) return IpAddress::v4(load_be<std::uint32_t>(field.data() + 12));
    IpAddress address;
    std::memcpy(address.bytes.data(), field.data(), field.size());
    return address;
  }
  static std::array<std::byte, 16> as_field(const IpAddress& address) {
    std::array<std::byte, 16> field{};
    const std::size_t skipped = address.is_v4() ? 12 : 0;
    std::memcpy(field.data() + skipped, address.bytes.data() + skipped, field.size() - skipped);
    return field;
  }
};

/// Service ids of RDMA IP CM: a prefix, the port space (IP protocol), and the port (IBTA annex A11.2).
constexpr std::uint64_t ip_service_id(std::uint16_t port_space, std::uint16_t port) {
  return std::uint64_t{port_space} << 16 | port;
}
constexpr bool is_ip_service_id(std::uint64_t service_id) { return service_id >> 24 == 0x1; }

}  // namespace roci
