// Messages of the communication manager, filled from what a connection knows.
#pragma once

#include <cstdint>
#include <span>

#include "stack/cm/connection.h"
#include "stack/cm/types.h"
#include "stack/wire/mad.h"

namespace roci::cm {

/// Which message a REJ or MRA is about (IBTA 12.6.6, 12.6.7).
enum class AboutMessage : std::uint8_t { kReq = 0, kRep = 1, kOther = 2 };

/// Transport service type of a REQ (IBTA 12.7.6).
enum class TransportService : std::uint8_t { kRc = 0, kUc = 1 };

Mad make_req(const Connection& connection, std::uint64_t ca_guid, std::span<const std::byte> data);
Mad make_rep(const Connection& connection, std::uint64_t ca_guid, std::span<const std::byte> data);
Mad make_rtu(const Connection& connection);
Mad make_dreq(const Connection& connection);
/// The answer to a DREQ, from the DREQ itself: the sender may be forgotten here.
Mad make_drep(const Mad& dreq);
Mad make_mra(const Connection& connection, AboutMessage about, std::uint8_t service_timeout);
Mad make_rej(std::uint64_t transaction_id, std::uint32_t local_id, std::uint32_t remote_id, AboutMessage about,
             RejectReason reason);
Mad make_sidr_req(const Connection& connection, std::span<const std::byte> data);
Mad make_sidr_rep(const Connection& connection, SidrStatus status, std::span<const std::byte> data);

/// What the sender of a REQ or REP tells of itself, as its receiver sees it: what one asks for, the other answers.
ConnectionParameters parameters_of_req(const Mad& message);
ConnectionParameters parameters_of_rep(const Mad& message);

void put_private_data(Mad& message, PrivateDataRoom room, std::span<const std::byte> data);

/// The room behind the header of IP CM.
constexpr PrivateDataRoom behind_ip_header(PrivateDataRoom room) {
  return {room.offset + IpCmHeader::kSize, room.bytes - IpCmHeader::kSize};
}

}  // namespace roci::cm
