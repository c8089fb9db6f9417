#include "stack/cm/messages.h"

#include <cstring>

namespace roci::cm {
namespace {

namespace layout = cm_layout;

constexpr std::uint16_t kDefaultPkey = 0xffff;
constexpr std::uint16_t kPermissiveLid = 0xffff;
/// 4.096 us x 2^20, which is what Linux gives the peer and takes itself for an answer.
constexpr std::uint8_t kResponseTimeout = 20;
constexpr std::uint8_t kMaxCmRetries = 15;
/// A program may be descheduled for this long before its end of a connection answers: 4.096 us x 2^15.
constexpr std::uint8_t kTargetAckDelay = 15;

Mad make_with_ids(CmAttribute attribute, std::uint64_t transaction_id, std::uint32_t local_id,
                  std::uint32_t remote_id) {
  Mad message = make_cm_message(attribute, transaction_id);
  message.set(layout::kLocalId, local_id);
  message.set(layout::kRemoteId, remote_id);
  return message;
}

void put_ip_header(Mad& message, PrivateDataRoom room, const Connection& connection) {
  IpCmHeader header{.source_port = connection.local.port};
  header.set_addresses(connection.local.address, connection.remote.address);
  header.write(message.bytes.data() + room.offset);
}

}  // namespace

void put_private_data(Mad& message, PrivateDataRoom room, std::span<const std::byte> data) {
  if (!data.empty()) std::memcpy(private_data(message, room).data(), data.data(), data.size());
}

Mad make_req(const Connection& connection, std::uint64_t ca_guid, std::span<const std::byte> data) {
  namespace req = layout::req;
  Mad message = make_with_ids(CmAttribute::kReq, connection.transaction_id, connection.local_id, 0);
  const ConnectionParameters& own = connection.own;
  const PathParameters& path = connection.path;
  message.set64(req::kServiceId, connection.service_id);
  message.set64(req::kLocalCaGuid, ca_guid);
  message.set(req::kLocalQpn, own.qpn.value);
  message.set(req::kResponderResources, own.responder_resources);
  message.set(req::kInitiatorDepth, own.initiator_depth);
  message.set(req::kRemoteResponseTimeout, kResponseTimeout);
  message.set(req::kTransportService,
              static_cast<std::uint32_t>(path.is_unreliable ? TransportService::kUc : TransportService::kRc));
  message.set(req::kFlowControl, own.flow_control);
  message.set(req::kStartingPsn, own.starting_psn.value());
  message.set(req::kLocalResponseTimeout, kResponseTimeout);
  message.set(req::kRetryCount, own.retry_count);
  message.set(req::kPkey, kDefaultPkey);
  message.set(req::kPathMtu, path.path_mtu);
  message.set(req::kRnrRetryCount, own.rnr_retry_count);
  message.set(req::kMaxCmRetries, kMaxCmRetries);
  message.set(req::kSrq, own.srq);
  message.set(req::kPrimaryLocalLid, kPermissiveLid);
  message.set(req::kPrimaryRemoteLid, kPermissiveLid);
  message.set_gid(req::kPrimaryLocalGid, connection.local.address);
  message.set_gid(req::kPrimaryRemoteGid, connection.remote.address);
  message.set(req::kPrimaryFlowLabel, path.flow_label);
  message.set(req::kPrimaryTrafficClass, path.traffic_class);
  message.set(req::kPrimaryHopLimit, path.hop_limit);
  message.set(req::kPrimaryAckTimeout, path.ack_timeout);
  put_ip_header(message, req::kPrivateData, connection);
  put_private_data(message, behind_ip_header(req::kPrivateData), data);
  return message;
}

Mad make_rep(const Connection& connection, std::uint64_t ca_guid, std::span<const std::byte> data) {
  namespace rep = layout::rep;
  Mad message = make_with_ids(CmAttribute::kRep, connection.transaction_id, connection.local_id, connection.remote_id);
  const ConnectionParameters& own = connection.own;
  message.set(rep::kLocalQpn, own.qpn.value);
  message.set(rep::kStartingPsn, own.starting_psn.value());
  message.set(rep::kResponderResources, own.responder_resources);
  message.set(rep::kInitiatorDepth, own.initiator_depth);
  message.set(rep::kTargetAckDelay, kTargetAckDelay);
  message.set(rep::kFlowControl, own.flow_control);
  message.set(rep::kRnrRetryCount, own.rnr_retry_count);
  message.set(rep::kSrq, own.srq);
  message.set64(rep::kLocalCaGuid, ca_guid);
  put_private_data(message, rep::kPrivateData, data);
  return message;
}

Mad make_rtu(const Connection& connection) {
  return make_with_ids(CmAttribute::kRtu, connection.transaction_id, connection.local_id, connection.remote_id);
}

Mad make_dreq(const Connection& connection) {
  Mad message = make_with_ids(CmAttribute::kDreq, connection.transaction_id, connection.local_id, connection.remote_id);
  message.set(layout::dreq::kRemoteQpn, connection.peer.qpn.value);
  return message;
}

Mad make_drep(const Mad& dreq) {
  return make_with_ids(CmAttribute::kDrep, dreq.get64(mad::kTransactionId), dreq.get(layout::kRemoteId),
                       dreq.get(layout::kLocalId));
}

Mad make_mra(const Connection& connection, AboutMessage about, std::uint8_t service_timeout) {
  Mad message = make_with_ids(CmAttribute::kMra, connection.transaction_id, connection.local_id, connection.remote_id);
  message.set(layout::mra::kMessageAcknowledged, static_cast<std::uint32_t>(about));
  message.set(layout::mra::kServiceTimeout, service_timeout);
  return message;
}

Mad make_rej(std::uint64_t transaction_id, std::uint32_t local_id, std::uint32_t remote_id, AboutMessage about,
             RejectReason reason) {
  Mad message = make_with_ids(CmAttribute::kRej, transaction_id, local_id, remote_id);
  message.set(layout::rej::kMessageRejected, static_cast<std::uint32_t>(about));
  message.set(layout::rej::kReason, static_cast<std::uint32_t>(reason));
  return message;
}

Mad make_sidr_req(const Connection& connection, std::span<const std::byte> data) {
  namespace sidr_req = layout::sidr_req;
  Mad message = make_cm_message(CmAttribute::kSidrReq, connection.transaction_id);
  message.set(sidr_req::kRequestId, connection.local_id);
  message.set(sidr_req::kPkey, kDefaultPkey);
  message.set64(sidr_req::kServiceId, connection.service_id);
  put_ip_header(message, sidr_req::kPrivateData, connection);
  put_private_data(message, behind_ip_header(sidr_req::kPrivateData), data);
  return message;
}

Mad make_sidr_rep(const Connection& connection, SidrStatus status, std::span<const std::byte> data) {
  namespace sidr_rep = layout::sidr_rep;
  Mad message = make_cm_message(CmAttribute::kSidrRep, connection.transaction_id);
  message.set(sidr_rep::kRequestId, connection.remote_id);
  message.set(sidr_rep::kStatus, static_cast<std::uint32_t>(status));
  message.set64(sidr_rep::kServiceId, connection.service_id);
  if (status == SidrStatus::kSuccess) {
    message.set(sidr_rep::kQpn, connection.own.qpn.value);
    message.set(sidr_rep::kQkey, connection.own.qkey);
  }
  put_private_data(message, sidr_rep::kPrivateData, data);
  return message;
}

ConnectionParameters parameters_of_req(const Mad& message) {
  namespace req = layout::req;
  return {.qpn = Qpn{message.get(req::kLocalQpn)},
          .starting_psn = Psn(message.get(req::kStartingPsn)),
          .qkey = message.get(req::kLocalQkey),
          .responder_resources = static_cast<std::uint8_t>(message.get(req::kInitiatorDepth)),
          .initiator_depth = static_cast<std::uint8_t>(message.get(req::kResponderResources)),
          .retry_count = static_cast<std::uint8_t>(message.get(req::kRetryCount)),
          .rnr_retry_count = static_cast<std::uint8_t>(message.get(req::kRnrRetryCount)),
          .flow_control = message.get(req::kFlowControl) != 0,
          .srq = message.get(req::kSrq) != 0};
}

ConnectionParameters parameters_of_rep(const Mad& message) {
  namespace rep = layout::rep;
  return {.qpn = Qpn{message.get(rep::kLocalQpn)},
          .starting_psn = Psn(message.get(rep::kStartingPsn)),
          .qkey = message.get(rep::kLocalQkey),
          .responder_resources = static_cast<std::uint8_t>(message.get(rep::kInitiatorDepth)),
          .initiator_depth = static_cast<std::uint8_t>(message.get(rep::kResponderResources)),
          .retry_count = 0,
          .rnr_retry_count = static_cast<std::uint8_t>(message.get(rep::kRnrRetryCount)),
          .flow_control = message.get(rep::kFlowControl) != 0,
          .srq = message.get(rep::kSrq) != 0};
}

}  // namespace roci::cm
