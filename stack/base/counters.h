// Every counter of a stack, in one table. Nothing is lost silently: each drop, error and retry has a row.
// Names are those of mlx5's hw_counters where the meaning is the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace roci {

// clang-format off
#define ROCI_COUNTERS(X) \
  X(rx_packets, "RoCE packets received with a right ICRC") \
  X(rx_bytes, "bytes of the frames of those packets") \
  X(tx_packets, "RoCE packets sent") \
  X(tx_bytes, "bytes of the frames sent") \
  X(rx_write_requests, "RDMA WRITE packets executed as responder") \
  X(rx_read_requests, "RDMA READ requests executed as responder") \
  X(rx_atomic_requests, "atomic requests executed as responder") \
  X(rx_send_requests, "SEND packets executed as responder") \
  X(rx_icrc_encapsulated, "packets dropped: wrong ICRC") \
  X(rx_not_roce, "frames ignored: neither RoCE nor MAC control") \
  X(rx_roce_v1, "frames ignored: RoCE v1") \
  X(rx_truncated, "packets dropped: shorter than their headers say") \
  X(rx_malformed, "packets dropped: lengths that contradict each other, bad IP header, transport version or pad") \
  X(rx_fragment, "packets dropped: IP fragments") \
  X(rx_unknown_opcode, "packets dropped: BTH opcode not known or not for this transport") \
  X(rx_bad_pkey, "packets dropped: P_Key not in the table") \
  X(rx_unknown_qp, "packets dropped: no such QP") \
  X(rx_no_group, "multicast packets dropped: no QP is in the group") \
  X(rx_bad_qkey, "datagrams dropped: Q_Key is not the QP's") \
  X(rx_wrong_source, "packets dropped: source address is not the QP's peer") \
  X(rx_wrong_destination, "packets dropped: destination address is not the QP's own") \
  X(rx_qp_not_ready, "packets dropped: the QP's state does not receive") \
  X(rx_ghost_acknowledge, "acknowledgements and responses dropped: PSN outside what is outstanding") \
  X(rx_reserved_syndrome, "acknowledgements and responses dropped: the AETH's syndrome or NAK code is a reserved one") \
  X(np_ecn_marked_roce_packets, "packets received with congestion experienced (CE)") \
  X(np_cnp_sent, "CNPs sent") \
  X(rp_cnp_handled, "CNPs received that the congestion control of their QP was told of") \
  X(rp_cnp_ignored, "CNPs dropped: no such QP, not from its peer, not in RTS, or without congestion control") \
  X(out_of_sequence, "requests that arrived ahead of the expected PSN, or on UC with any other than that") \
  X(duplicate_request, "requests seen before") \
  X(out_of_buffer, "requests refused (RC: RNR NAK sent) or dropped for want of a receive WQE") \
  X(uc_dropped_messages, "UC messages dropped: a packet was missing, or could not be executed") \
  X(ud_oversized_sends, "UD messages not sent: longer than the MTU") \
  X(packet_seq_err, "NAKs for PSN sequence error received") \
  X(rnr_nak_retry_err, "RNR NAKs received") \
  X(implied_nak_seq_err, "acknowledgements that skipped a READ response or atomic response") \
  X(local_ack_timeout_err, "retransmissions by timeout") \
  X(retransmitted_packets, "request packets sent again") \
  X(tx_acks, "acknowledgements sent") \
  X(tx_naks, "NAKs sent, RNR NAKs included") \
  X(rx_acks, "acknowledgements received") \
  X(read_responses_sent, "RDMA READ response packets sent") \
  X(req_cqe_error, "completions in error as requester") \
  X(req_cqe_flush_error, "send work requests flushed") \
  X(resp_cqe_error, "completions in error as responder") \
  X(resp_cqe_flush_error, "receive work requests flushed") \
  X(resp_local_length_error, "messages longer than the receive buffer") \
  X(resp_remote_access_errors, "requests refused: R_Key, range or rights") \
  X(resp_remote_invalid_request, "requests refused: opcode, sequence or length") \
  X(resp_remote_invalidate_errors, "SENDs whose R_Key was not the peer's to invalidate") \
  X(resp_remote_operational_errors, "requests refused: local fault while executing") \
  X(req_bad_responses, "responses of an opcode or length that the request does not call for") \
  X(req_remote_access_errors, "NAKs received for remote access error") \
  X(req_remote_invalid_request, "NAKs received for invalid request") \
  X(req_remote_operational_errors, "NAKs received for remote operational error") \
  X(req_transport_retries_exceeded, "requests given up after retry_cnt timeouts") \
  X(req_rnr_retries_exceeded, "requests given up after rnr_retry RNR NAKs") \
  X(cq_overflow, "completions lost: the CQ was full") \
  X(peer_stalled_waits, "timeouts put off because the peer is alive but stopped") \
  X(tx_no_room, "times a QP waited for room in the link") \
  X(baton_busy, "turns given up because another thread held the baton") \
  X(turns, "turns of the worker") \
  X(turns_background, "turns by the background thread") \
  X(rx_mads, "management datagrams received on QP1") \
  X(rx_mads_dropped, "packets to QP1 dropped: no management datagram, wrong Q_Key, or for another address") \
  X(tx_mads, "management datagrams sent from QP1") \
  X(tx_mads_dropped, "management datagrams dropped before they were sent: no route, or too many wait") \
  X(cm_listens, "rdma_cm: ids that have begun to listen") \
  X(cm_connections, "rdma_cm: connections made") \
  X(cm_retries, "rdma_cm: messages sent again for want of an answer") \
  X(cm_duplicates, "rdma_cm: messages received again") \
  X(cm_rejects_sent, "rdma_cm: rejections sent") \
  X(cm_unreachable, "rdma_cm: connections given up for want of an answer") \
  X(control_calls, "control calls that took the baton") \
  X(async_events_raised, "asynchronous events raised") \
  X(rx_pause_ignored, "PFC and PAUSE frames received and not obeyed: for priorities without PFC, or not of 802.1Qbb") \
  X(tx_pause_storm_guard, "times that PFC was given up: the receive side was behind for 100 ms without a break")

/// One row for each priority of 802.1Q.
#define ROCI_PRIORITY_COUNTERS(X, n) \
  X(tx_prio##n##_packets, "RoCE packets sent with priority " #n) \
  X(rx_prio##n##_pause, "PFC frames received that pause priority " #n " or end its pause") \
  X(rx_prio##n##_pause_duration, "microseconds for which the link partner held back priority " #n) \
  X(tx_prio##n##_pause, "PFC frames sent that pause priority " #n " or end its pause")
#define ROCI_ALL_PRIORITY_COUNTERS(X) \
  ROCI_PRIORITY_COUNTERS(X, 0) ROCI_PRIORITY_COUNTERS(X, 1) ROCI_PRIORITY_COUNTERS(X, 2) ROCI_PRIORITY_COUNTERS(X, 3) \
  ROCI_PRIORITY_COUNTERS(X, 4) ROCI_PRIORITY_COUNTERS(X, 5) ROCI_PRIORITY_COUNTERS(X, 6) ROCI_PRIORITY_COUNTERS(X, 7)
// clang-format on

/// Of one priority, in the order of the table.
struct PriorityCounters {
  std::uint64_t tx_packets = 0;
  std::uint64_t rx_pause = 0;
  std::uint64_t rx_pause_duration = 0;
  std::uint64_t tx_pause = 0;
};

/// What congestion control lets a QP do, as `roci stat` shows it.
struct QpRate {
  std::uint64_t qpn = 0;               ///< 0: the row is free
  std::uint64_t current_rate_bps = 0;  ///< Rc
  std::uint64_t target_rate_bps = 0;   ///< Rt
  std::uint64_t alpha_ppm = 0;         ///< alpha in millionths
};
/// QPs beyond these are not shown.
inline constexpr std::size_t kQpRates = 32;
using QpRates = std::array<QpRate, kQpRates>;
static_assert(sizeof(QpRate) % sizeof(std::uint64_t) == 0);
/// For whoever copies them out of memory that another process writes.
inline std::span<std::uint64_t> words_of(QpRates& rates) {
  return {&rates[0].qpn, sizeof(QpRates) / sizeof(std::uint64_t)};
}

/// Owner: whoever holds the worker's baton; read by anybody, each value by itself.
struct Counters {
#define ROCI_COUNTER_FIELD(name, description) std::uint64_t name = 0;
  ROCI_COUNTERS(ROCI_COUNTER_FIELD)
#undef ROCI_COUNTER_FIELD
  std::array<PriorityCounters, 8> priority;
  QpRates rates;
};

struct CounterInfo {
  std::string_view name;
  std::string_view description;
};

inline constexpr auto kCounterInfos = std::to_array<CounterInfo>({
#define ROCI_COUNTER_ROW(name, description) {#name, description},
    ROCI_COUNTERS(ROCI_COUNTER_ROW) ROCI_ALL_PRIORITY_COUNTERS(ROCI_COUNTER_ROW)
#undef ROCI_COUNTER_ROW
});

static_assert(offsetof(Counters, rates) == kCounterInfos.size() * sizeof(std::uint64_t));

}  // namespace roci
