// THE opcode table: everything that the stack, the tools and the tests know of BTH opcodes (IBTA 9.2.1, table 38).
// Lengths, offsets, names and legal successors follow from the rows below.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace roci {

enum class Transport : std::uint8_t { kRc, kUc, kUd, kXrc, kCnp };

enum class Operation : std::uint8_t {
  kSend,
  kRdmaWrite,
  kRdmaReadRequest,
  kRdmaReadResponse,
  kAcknowledge,
  kAtomicAcknowledge,
  kCompareSwap,
  kFetchAdd,
  kCnp,
};

/// Where a packet stands in its message, or in the response.
enum class Position : std::uint8_t { kFirst, kMiddle, kLast, kOnly };

/// Extension headers, in the order in which they follow the BTH.
enum class Extension : std::uint8_t {
  kXrcEth,
  kDeth,
  kReth,
  kAtomicEth,
  kAeth,
  kAtomicAckEth,
  kImmDt,
  kIeth,
  kCnpReserved,  ///< 16 bytes of zero
};

/// What a QP takes, or does not, in the state that it is in: a bit each, 0 for CNPs and XRC.
enum PacketClass : std::uint8_t { kRcRequest = 1, kRcResponse = 2, kUcRequest = 4, kDatagram = 8 };

inline constexpr std::array<std::uint8_t, 9> kExtensionBytes{4, 8, 16, 28, 4, 8, 4, 4, 16};

// clang-format off
/// X(identifier, name, value, transport, operation, position, extensions...). XRC repeats RC with an XRCETH in front of
/// requests (IBTA annex A14).
#define ROCI_OPCODES(X) \
  X(kRcSendFirst,            "RC_SEND_FIRST",             0x00, kRc, kSend, kFirst) \
  X(kRcSendMiddle,           "RC_SEND_MIDDLE",            0x01, kRc, kSend, kMiddle) \
  X(kRcSendLast,             "RC_SEND_LAST",              0x02, kRc, kSend, kLast) \
  X(kRcSendLastImm,          "RC_SEND_LAST_IMM",          0x03, kRc, kSend, kLast, kImmDt) \
  X(kRcSendOnly,             "RC_SEND_ONLY",              0x04, kRc, kSend, kOnly) \
  X(kRcSendOnlyImm,          "RC_SEND_ONLY_IMM",          0x05, kRc, kSend, kOnly, kImmDt) \
  X(kRcWriteFirst,           "RC_WRITE_FIRST",            0x06, kRc, kRdmaWrite, kFirst, kReth) \
  X(kRcWriteMiddle,          "RC_WRITE_MIDDLE",           0x07, kRc, kRdmaWrite, kMiddle) \
  X(kRcWriteLast,            "RC_WRITE_LAST",             0x08, kRc, kRdmaWrite, kLast) \
  X(kRcWriteLastImm,         "RC_WRITE_LAST_IMM",         0x09, kRc, kRdmaWrite, kLast, kImmDt) \
  X(kRcWriteOnly,            "RC_WRITE_ONLY",             0x0a, kRc, kRdmaWrite, kOnly, kReth) \
  X(kRcWriteOnlyImm,         "RC_WRITE_ONLY_IMM",         0x0b, kRc, kRdmaWrite, kOnly, kReth, kImmDt) \
  X(kRcReadRequest,          "RC_READ_REQUEST",           0x0c, kRc, kRdmaReadRequest, kOnly, kReth) \
  X(kRcReadResponseFirst,    "RC_READ_RESP_FIRST",        0x0d, kRc, kRdmaReadResponse, kFirst, kAeth) \
  X(kRcReadResponseMiddle,   "RC_READ_RESP_MIDDLE",       0x0e, kRc, kRdmaReadResponse, kMiddle) \
  X(kRcReadResponseLast,     "RC_READ_RESP_LAST",         0x0f, kRc, kRdmaReadResponse, kLast, kAeth) \
  X(kRcReadResponseOnly,     "RC_READ_RESP_ONLY",         0x10, kRc, kRdmaReadResponse, kOnly, kAeth) \
  X(kRcAcknowledge,          "RC_ACK",                    0x11, kRc, kAcknowledge, kOnly, kAeth) \
  X(kRcAtomicAcknowledge,    "RC_ATOMIC_ACK",             0x12, kRc, kAtomicAcknowledge, kOnly, kAeth, kAtomicAckEth) \
  X(kRcCompareSwap,          "RC_CMP_SWAP",               0x13, kRc, kCompareSwap, kOnly, kAtomicEth) \
  X(kRcFetchAdd,             "RC_FETCH_ADD",              0x14, kRc, kFetchAdd, kOnly, kAtomicEth) \
  X(kRcSendLastInv,          "RC_SEND_LAST_INV",          0x16, kRc, kSend, kLast, kIeth) \
  X(kRcSendOnlyInv,          "RC_SEND_ONLY_INV",          0x17, kRc, kSend, kOnly, kIeth) \
  X(kUcSendFirst,            "UC_SEND_FIRST",             0x20, kUc, kSend, kFirst) \
  X(kUcSendMiddle,           "UC_SEND_MIDDLE",            0x21, kUc, kSend, kMiddle) \
  X(kUcSendLast,             "UC_SEND_LAST",              0x22, kUc, kSend, kLast) \
  X(kUcSendLastImm,          "UC_SEND_LAST_IMM",          0x23, kUc, kSend, kLast, kImmDt) \
  X(kUcSendOnly,             "UC_SEND_ONLY",              0x24, kUc, kSend, kOnly) \
  X(kUcSendOnlyImm,          "UC_SEND_ONLY_IMM",          0x25, kUc, kSend, kOnly, kImmDt) \
  X(kUcWriteFirst,           "UC_WRITE_FIRST",            0x26, kUc, kRdmaWrite, kFirst, kReth) \
  X(kUcWriteMiddle,          "UC_WRITE_MIDDLE",           0x27, kUc, kRdmaWrite, kMiddle) \
  X(kUcWriteLast,            "UC_WRITE_LAST",             0x28, kUc, kRdmaWrite, kLast) \
  X(kUcWriteLastImm,         "UC_WRITE_LAST_IMM",         0x29, kUc, kRdmaWrite, kLast, kImmDt) \
  X(kUcWriteOnly,            "UC_WRITE_ONLY",             0x2a, kUc, kRdmaWrite, kOnly, kReth) \
  X(kUcWriteOnlyImm,         "UC_WRITE_ONLY_IMM",         0x2b, kUc, kRdmaWrite, kOnly, kReth, kImmDt) \
  X(kUdSendOnly,             "UD_SEND_ONLY",              0x64, kUd, kSend, kOnly, kDeth) \
  X(kUdSendOnlyImm,          "UD_SEND_ONLY_IMM",          0x65, kUd, kSend, kOnly, kDeth, kImmDt) \
  X(kCnp,                    "CNP",                       0x81, kCnp, kCnp, kOnly, kCnpReserved) \
  X(kXrcSendFirst,           "XRC_SEND_FIRST",            0xa0, kXrc, kSend, kFirst, kXrcEth) \
  X(kXrcSendMiddle,          "XRC_SEND_MIDDLE",           0xa1, kXrc, kSend, kMiddle, kXrcEth) \
  X(kXrcSendLast,            "XRC_SEND_LAST",             0xa2, kXrc, kSend, kLast, kXrcEth) \
  X(kXrcSendLastImm,         "XRC_SEND_LAST_IMM",         0xa3, kXrc, kSend, kLast, kXrcEth, kImmDt) \
  X(kXrcSendOnly,            "XRC_SEND_ONLY",             0xa4, kXrc, kSend, kOnly, kXrcEth) \
  X(kXrcSendOnlyImm,         "XRC_SEND_ONLY_IMM",         0xa5, kXrc, kSend, kOnly, kXrcEth, kImmDt) \
  X(kXrcWriteFirst,          "XRC_WRITE_FIRST",           0xa6, kXrc, kRdmaWrite, kFirst, kXrcEth, kReth) \
  X(kXrcWriteMiddle,         "XRC_WRITE_MIDDLE",          0xa7, kXrc, kRdmaWrite, kMiddle, kXrcEth) \
  X(kXrcWriteLast,           "XRC_WRITE_LAST",            0xa8, kXrc, kRdmaWrite, kLast, kXrcEth) \
  X(kXrcWriteLastImm,        "XRC_WRITE_LAST_IMM",        0xa9, kXrc, kRdmaWrite, kLast, kXrcEth, kImmDt) \
  X(kXrcWriteOnly,           "XRC_WRITE_ONLY",            0xaa, kXrc, kRdmaWrite, kOnly, kXrcEth, kReth) \
  X(kXrcWriteOnlyImm,        "XRC_WRITE_ONLY_IMM",        0xab, kXrc, kRdmaWrite, kOnly, kXrcEth, kReth, kImmDt) \
  X(kXrcReadRequest,         "XRC_READ_REQUEST",          0xac, kXrc, kRdmaReadRequest, kOnly, kXrcEth, kReth) \
  X(kXrcReadResponseFirst,   "XRC_READ_RESP_FIRST",       0xad, kXrc, kRdmaReadResponse, kFirst, kAeth) \
  X(kXrcReadResponseMiddle,  "XRC_READ_RESP_MIDDLE",      0xae, kXrc, kRdmaReadResponse, kMiddle) \
  X(kXrcReadResponseLast,    "XRC_READ_RESP_LAST",        0xaf, kXrc, kRdmaReadResponse, kLast, kAeth) \
  X(kXrcReadResponseOnly,    "XRC_READ_RESP_ONLY",        0xb0, kXrc, kRdmaReadResponse, kOnly, kAeth) \
  X(kXrcAcknowledge,         "XRC_ACK",                   0xb1, kXrc, kAcknowledge, kOnly, kAeth) \
  X(kXrcAtomicAcknowledge,   "XRC_ATOMIC_ACK",            0xb2, kXrc, kAtomicAcknowledge, kOnly, kAeth, kAtomicAckEth) \
  X(kXrcCompareSwap,         "XRC_CMP_SWAP",              0xb3, kXrc, kCompareSwap, kOnly, kXrcEth, kAtomicEth) \
  X(kXrcFetchAdd,            "XRC_FETCH_ADD",             0xb4, kXrc, kFetchAdd, kOnly, kXrcEth, kAtomicEth) \
  X(kXrcSendLastInv,         "XRC_SEND_LAST_INV",         0xb6, kXrc, kSend, kLast, kXrcEth, kIeth) \
  X(kXrcSendOnlyInv,         "XRC_SEND_ONLY_INV",         0xb7, kXrc, kSend, kOnly, kXrcEth, kIeth)
// clang-format on

enum class Opcode : std::uint8_t {
#define ROCI_OPCODE_VALUE(identifier, name, value, ...) identifier = value,
  ROCI_OPCODES(ROCI_OPCODE_VALUE)
#undef ROCI_OPCODE_VALUE
};

struct OpcodeInfo {
  bool known = false;
  Transport transport{};
  Operation operation{};
  Position position{};
  std::uint16_t extensions = 0;      ///< a bit for each Extension
  std::uint8_t extension_bytes = 0;  ///< of all of them
  bool takes_recv_wqe = false;       ///< a receive WQE is taken when this packet arrives
  bool makes_recv_cqe = false;       ///< a receive WQE completes with this packet
  bool is_request_ = false;
  bool is_response_ = false;
  std::uint8_t packet_class = 0;                               ///< a PacketClass
  std::array<std::uint8_t, kExtensionBytes.size()> offsets{};  ///< bytes from the end of the BTH to each Extension
  std::string_view name = "unknown";

  constexpr bool has(Extension extension) const { return (extensions >> static_cast<unsigned>(extension) & 1) != 0; }
  /// Bytes from the end of the BTH to `extension`, which the opcode has.
  constexpr std::size_t offset_of(Extension extension) const { return offsets[static_cast<std::size_t>(extension)]; }
  constexpr bool is_first() const { return position == Position::kFirst || position == Position::kOnly; }
  constexpr bool is_last() const { return position == Position::kLast || position == Position::kOnly; }
  constexpr bool is_response() const { return is_response_; }
  constexpr bool is_request() const { return is_request_; }
  constexpr bool may_carry_payload() const {
    return operation == Operation::kSend || operation == Operation::kRdmaWrite ||
           operation == Operation::kRdmaReadResponse;
  }
};

namespace detail {

constexpr std::uint8_t packet_class_of(Transport transport, bool is_response) {
  switch (transport) {
    case Transport::kRc:
      return is_response ? kRcResponse : kRcRequest;
    case Transport::kUc:
      return kUcRequest;
    case Transport::kUd:
      return kDatagram;
    default:
      return 0;
  }
}

constexpr OpcodeInfo make_opcode_info(std::string_view name, Transport transport, Operation operation,
                                      Position position, std::initializer_list<Extension> extensions) {
  OpcodeInfo info{.known = true, .transport = transport, .operation = operation, .position = position, .name = name};
  for (const Extension extension : extensions) {
    info.extensions = static_cast<std::uint16_t>(info.extensions | 1u << static_cast<unsigned>(extension));
    info.extension_bytes =
        static_cast<std::uint8_t>(info.extension_bytes + kExtensionBytes[static_cast<std::size_t>(extension)]);
  }
  for (std::size_t i = 1; i < kExtensionBytes.size(); ++i)
    info.offsets[i] = static_cast<std::uint8_t>(info.offsets[i - 1] +
                                                (info.has(static_cast<Extension>(i - 1)) ? kExtensionBytes[i - 1] : 0));
  info.is_response_ = operation == Operation::kRdmaReadResponse || operation == Operation::kAcknowledge ||
                      operation == Operation::kAtomicAcknowledge;
  info.is_request_ = !info.is_response_ && operation != Operation::kCnp;
  info.packet_class = packet_class_of(transport, info.is_response_);
  const bool write_with_imm = operation == Operation::kRdmaWrite && info.has(Extension::kImmDt);
  info.takes_recv_wqe = (operation == Operation::kSend && info.is_first()) || write_with_imm;
  info.makes_recv_cqe = (operation == Operation::kSend && info.is_last()) || write_with_imm;
  return info;
}

constexpr std::array<OpcodeInfo, 256> make_opcode_table() {
  using enum Extension;
  std::array<OpcodeInfo, 256> table{};
#define ROCI_OPCODE_ROW(identifier, name, value, transport, operation, place, ...) \
  table[value] = make_opcode_info(name, Transport::transport, Operation::operation, Position::place, {__VA_ARGS__});
  ROCI_OPCODES(ROCI_OPCODE_ROW)
#undef ROCI_OPCODE_ROW
  return table;
}

}  // namespace detail

inline constexpr std::array<OpcodeInfo, 256> kOpcodes = detail::make_opcode_table();

constexpr const OpcodeInfo& opcode_info(std::uint8_t opcode) { return kOpcodes[opcode]; }
constexpr const OpcodeInfo& opcode_info(Opcode opcode) { return kOpcodes[static_cast<std::uint8_t>(opcode)]; }

/// True if a responder may see request `next` right after request `previous` (IBTA 9.7.4.1.2, table 56): a message goes
/// on with the same operation, and a new one starts only when the last is complete.
constexpr bool follows(Opcode previous, Opcode next) {
  const OpcodeInfo& before = opcode_info(previous);
  const OpcodeInfo& after = opcode_info(next);
  if (before.transport != after.transport || !before.is_request() || !after.is_request()) return false;
  if (before.is_last()) return after.is_first();
  return !after.is_first() && after.operation == before.operation;
}

namespace detail {

enum class Suffix : std::uint8_t { kNone, kImm, kInv };
constexpr std::size_t kTransports = 5;
constexpr std::size_t kOperations = 9;
constexpr std::size_t kPositions = 4;
constexpr std::size_t kSuffixes = 3;

constexpr std::size_t choice_index(Transport transport, Operation operation, Position position, Suffix suffix) {
  return ((static_cast<std::size_t>(transport) * kOperations + static_cast<std::size_t>(operation)) * kPositions +
          static_cast<std::size_t>(position)) *
             kSuffixes +
         static_cast<std::size_t>(suffix);
}

/// The opcode table turned round: from what a packet is to its opcode. Combinations that do not exist are 0xff.
constexpr auto make_opcode_choices() {
  std::array<std::uint8_t, kTransports * kOperations * kPositions * kSuffixes> choices{};
  choices.fill(0xff);
  for (std::size_t value = 0; value < kOpcodes.size(); ++value) {
    const OpcodeInfo& info = kOpcodes[value];
    if (!info.known) continue;
    const Suffix suffix = info.has(Extension::kImmDt)  ? Suffix::kImm
                          : info.has(Extension::kIeth) ? Suffix::kInv
                                                       : Suffix::kNone;
    choices[choice_index(info.transport, info.operation, info.position, suffix)] = static_cast<std::uint8_t>(value);
  }
  return choices;
}

inline constexpr auto kOpcodeChoices = make_opcode_choices();

}  // namespace detail

/// The opcode of a packet of `operation` at `position`; at most one of the last two is set.
constexpr Opcode send_opcode(Transport transport, Operation operation, Position position, bool with_imm,
                             bool with_inv) {
  using detail::Suffix;
  const Suffix suffix = with_imm ? Suffix::kImm : with_inv ? Suffix::kInv : Suffix::kNone;
  return static_cast<Opcode>(detail::kOpcodeChoices[detail::choice_index(transport, operation, position, suffix)]);
}

}  // namespace roci
