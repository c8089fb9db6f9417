#include "stack/wire/opcodes.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace roci {
namespace {

struct SpecRow {
  const char* name;
  std::vector<const char*> headers;
};

// Opcodes without their three transport bits, and the headers between BTH and payload, as IBTA table 38 lists them for
// RC. UC has the first twelve of them.
const std::map<int, SpecRow> kReliable{
    {0, {"SEND_FIRST", {}}},
    {1, {"SEND_MIDDLE", {}}},
    {2, {"SEND_LAST", {}}},
    {3, {"SEND_LAST_IMM", {"ImmDt"}}},
    {4, {"SEND_ONLY", {}}},
    {5, {"SEND_ONLY_IMM", {"ImmDt"}}},
    {6, {"WRITE_FIRST", {"RETH"}}},
    {7, {"WRITE_MIDDLE", {}}},
    {8, {"WRITE_LAST", {}}},
    {9, {"WRITE_LAST_IMM", {"ImmDt"}}},
    {10, {"WRITE_ONLY", {"RETH"}}},
    {11, {"WRITE_ONLY_IMM", {"RETH", "ImmDt"}}},
    {12, {"READ_REQUEST", {"RETH"}}},
    {13, {"READ_RESP_FIRST", {"AETH"}}},
    {14, {"READ_RESP_MIDDLE", {}}},
    {15, {"READ_RESP_LAST", {"AETH"}}},
    {16, {"READ_RESP_ONLY", {"AETH"}}},
    {17, {"ACK", {"AETH"}}},
    {18, {"ATOMIC_ACK", {"AETH", "AtomicAckETH"}}},
    {19, {"CMP_SWAP", {"AtomicETH"}}},
    {20, {"FETCH_ADD", {"AtomicETH"}}},
    {22, {"SEND_LAST_INV", {"IETH"}}},
    {23, {"SEND_ONLY_INV", {"IETH"}}},
};

const std::map<std::string, std::pair<Extension, std::size_t>> kHeaderBytes{
    {"XRCETH", {Extension::kXrcEth, 4}},     {"DETH", {Extension::kDeth, 8}},
    {"RETH", {Extension::kReth, 16}},        {"AtomicETH", {Extension::kAtomicEth, 28}},
    {"AETH", {Extension::kAeth, 4}},         {"AtomicAckETH", {Extension::kAtomicAckEth, 8}},
    {"ImmDt", {Extension::kImmDt, 4}},       {"IETH", {Extension::kIeth, 4}},
    {"zeros", {Extension::kCnpReserved, 16}}};

bool is_response(int operation) { return operation >= 13 && operation <= 18; }

/// Every opcode of RC (0x00), UC (0x20), UD (0x60), XRC (0xa0) and the CNP.
std::map<int, SpecRow> spec_table() {
  std::map<int, SpecRow> rows;
  const auto add = [&](int base, const std::string& transport, int operation, std::vector<const char*> headers) {
    static std::set<std::string> names;
    const std::string& name = *names.insert(transport + kReliable.at(operation).name).first;
    rows[base + operation] = {name.c_str(), std::move(headers)};
  };
  for (const auto& [operation, row] : kReliable) {
    add(0x00, "RC_", operation, row.headers);
    if (operation < 12) add(0x20, "UC_", operation, row.headers);
    std::vector<const char*> headers = row.headers;
    if (!is_response(operation)) headers.insert(headers.begin(), "XRCETH");
    add(0xa0, "XRC_", operation, headers);
  }
  add(0x60, "UD_", 4, {"DETH"});
  add(0x60, "UD_", 5, {"DETH", "ImmDt"});
  rows[0x81] = {"CNP", {"zeros"}};
  return rows;
}

TEST(Opcodes, table__has_the_opcodes_of_the_specification_and_no_other) {
  const std::map<int, SpecRow> spec = spec_table();
  for (int value = 0; value < 256; ++value) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(value));
    EXPECT_EQ(info.known, spec.contains(value)) << value;
    if (spec.contains(value)) {
      EXPECT_EQ(info.name, spec.at(value).name);
    }
  }
}

TEST(Opcodes, table__has_the_headers_of_the_specification_in_their_order) {
  for (const auto& [value, row] : spec_table()) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(value));
    std::size_t bytes = 0;
    std::set<Extension> expected;
    for (const char* header : row.headers) {
      const auto [extension, size] = kHeaderBytes.at(header);
      EXPECT_TRUE(info.has(extension)) << row.name << " " << header;
      EXPECT_EQ(info.offset_of(extension), bytes) << row.name << " " << header;
      bytes += size;
      expected.insert(extension);
    }
    EXPECT_EQ(info.extension_bytes, bytes) << row.name;
    for (const auto& [name, header] : kHeaderBytes)
      EXPECT_EQ(info.has(header.first), expected.contains(header.first)) << row.name << " " << name;
  }
}

TEST(Opcodes, table__transport_is_the_three_high_bits) {
  for (const auto& [value, row] : spec_table()) {
    if (value == 0x81) continue;
    const std::map<int, Transport> transports{
        {0, Transport::kRc}, {1, Transport::kUc}, {3, Transport::kUd}, {5, Transport::kXrc}};
    EXPECT_EQ(opcode_info(static_cast<std::uint8_t>(value)).transport, transports.at(value >> 5)) << row.name;
  }
  EXPECT_EQ(opcode_info(Opcode::kCnp).transport, Transport::kCnp);
}

TEST(Opcodes, table__receive_wqes_are_taken_by_sends_and_by_immediate_data) {
  // IBTA 9.7.5.2.1 and 9.7.4.1.5: the start of a SEND takes the receive WQE, its end completes it; a WRITE takes and
  // completes one only with its immediate data.
  const std::set<int> takes{0, 4, 5, 23, 9, 11};
  const std::set<int> completes{2, 3, 22, 4, 5, 23, 9, 11};
  for (const auto& [value, row] : spec_table()) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(value));
    const int operation = value == 0x81 ? -1 : value & 0x1f;
    EXPECT_EQ(info.takes_recv_wqe, takes.contains(operation)) << row.name;
    EXPECT_EQ(info.makes_recv_cqe, completes.contains(operation)) << row.name;
  }
}

TEST(Opcodes, table__requests_responses_and_payload) {
  const std::set<int> with_payload{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 15, 16, 22, 23};
  for (const auto& [value, row] : spec_table()) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(value));
    const int operation = value == 0x81 ? -1 : value & 0x1f;
    EXPECT_EQ(info.is_response(), is_response(operation)) << row.name;
    EXPECT_EQ(info.is_request(), operation >= 0 && !is_response(operation)) << row.name;
    EXPECT_EQ(info.may_carry_payload(), with_payload.contains(operation)) << row.name;
  }
  EXPECT_FALSE(opcode_info(0xff).is_request());
}

// What may come after a request, written from the words of IBTA 9.7.4.1.2 with opcodes less their transport bits: the
// middle and the ends of the same operation, or, after an end, anything that starts a message.
std::set<int> successors(int operation, bool is_reliable) {
  if (operation == 0 || operation == 1) return is_reliable ? std::set<int>{1, 2, 3, 22} : std::set<int>{1, 2, 3};
  if (operation == 6 || operation == 7) return {7, 8, 9};
  return is_reliable ? std::set<int>{0, 4, 5, 23, 6, 10, 11, 12, 19, 20} : std::set<int>{0, 4, 5, 6, 10, 11};
}

TEST(Opcodes, follows__is_the_list_of_the_specification) {
  std::map<int, std::set<int>> allowed;
  for (const auto& [operation, row] : kReliable) {
    if (is_response(operation)) continue;
    for (int base : {0x00, 0xa0})
      for (int next : successors(operation, true)) allowed[base + operation].insert(base + next);
    if (operation >= 12) continue;
    for (int next : successors(operation, false)) allowed[0x20 + operation].insert(0x20 + next);
  }
  for (int operation : {0x64, 0x65}) allowed[operation] = {0x64, 0x65};

  for (int previous = 0; previous < 256; ++previous)
    for (int next = 0; next < 256; ++next)
      EXPECT_EQ(follows(static_cast<Opcode>(previous), static_cast<Opcode>(next)), allowed[previous].contains(next))
          << previous << " then " << next;
}

TEST(Opcodes, send_opcode__finds_every_opcode_by_what_it_is) {
  for (const auto& [value, row] : spec_table()) {
    const OpcodeInfo& info = opcode_info(static_cast<std::uint8_t>(value));
    const std::string name = row.name;
    const Opcode found =
        send_opcode(info.transport, info.operation, info.position, name.ends_with("_IMM"), name.ends_with("_INV"));
    EXPECT_EQ(static_cast<int>(found), value) << name;
  }
}

TEST(Opcodes, send_opcode__known_answers_and_what_does_not_exist) {
  using enum Position;
  const auto value = [](Transport transport, Operation operation, Position position, bool imm, bool inv) {
    return static_cast<int>(send_opcode(transport, operation, position, imm, inv));
  };
  EXPECT_EQ(value(Transport::kRc, Operation::kSend, kOnly, false, false), 0x04);
  EXPECT_EQ(value(Transport::kRc, Operation::kSend, kLast, false, true), 0x16);
  EXPECT_EQ(value(Transport::kUc, Operation::kRdmaWrite, kOnly, true, false), 0x2b);
  EXPECT_EQ(value(Transport::kUd, Operation::kSend, kOnly, true, false), 0x65);
  EXPECT_EQ(value(Transport::kXrc, Operation::kRdmaWrite, kFirst, false, false), 0xa6);
  EXPECT_FALSE(opcode_info(send_opcode(Transport::kUd, Operation::kSend, kFirst, false, false)).known);
  EXPECT_FALSE(opcode_info(send_opcode(Transport::kUc, Operation::kFetchAdd, kOnly, false, false)).known);
  EXPECT_FALSE(opcode_info(send_opcode(Transport::kRc, Operation::kSend, kFirst, true, false)).known);
}

}  // namespace
}  // namespace roci
