// Names and rates.
#include <array>
#include <cstddef>

#include "verbs-shim/ibverbs/objects.h"

namespace {

template <std::size_t kCount>
const char* at(const std::array<const char*, kCount>& names, int value) {
  return value >= 0 && static_cast<std::size_t>(value) < kCount && names[static_cast<std::size_t>(value)] != nullptr
             ? names[static_cast<std::size_t>(value)]
             : "unknown";
}

/// Static rates: multiples of 2.5 Gb/s where verbs has one, and Mb/s.
struct Rate {
  ibv_rate rate;
  int multiple;
  int mbps;
};

constexpr int kNoMultiple = -1;

constexpr auto kRates = std::to_array<Rate>({
    {IBV_RATE_2_5_GBPS, 1, 2'500},
    {IBV_RATE_5_GBPS, 2, 5'000},
    {IBV_RATE_10_GBPS, 4, 10'000},
    {IBV_RATE_20_GBPS, 8, 20'000},
    {IBV_RATE_30_GBPS, 12, 30'000},
    {IBV_RATE_40_GBPS, 16, 40'000},
    {IBV_RATE_60_GBPS, 24, 60'000},
    {IBV_RATE_80_GBPS, 32, 80'000},
    {IBV_RATE_120_GBPS, 48, 120'000},
    {IBV_RATE_14_GBPS, kNoMultiple, 14'062},
    {IBV_RATE_56_GBPS, kNoMultiple, 56'250},
    {IBV_RATE_112_GBPS, kNoMultiple, 112'500},
    {IBV_RATE_168_GBPS, kNoMultiple, 168'750},
    {IBV_RATE_25_GBPS, kNoMultiple, 25'781},
    {IBV_RATE_100_GBPS, kNoMultiple, 103'125},
    {IBV_RATE_200_GBPS, kNoMultiple, 206'250},
    {IBV_RATE_300_GBPS, kNoMultiple, 309'375},
    {IBV_RATE_28_GBPS, 11, 28'125},
    {IBV_RATE_50_GBPS, 20, 53'125},
    {IBV_RATE_400_GBPS, 160, 425'000},
    {IBV_RATE_600_GBPS, 240, 637'500},
});

template <class Key>
ibv_rate rate_by(Key key, int value) {
  for (const Rate& row : kRates)
    if (row.*key == value && value > 0) return row.rate;
  return IBV_RATE_MAX;
}

template <class Field>
int field_of(ibv_rate rate, Field field) {
  for (const Rate& row : kRates)
    if (row.rate == rate) return row.*field;
  return -1;
}

}  // namespace

ROCI_EXPORT const char* ibv_node_type_str(ibv_node_type type) {
  static constexpr std::array<const char*, 8> kNames{nullptr,
                                                     "InfiniBand channel adapter",
                                                     "InfiniBand switch",
                                                     "InfiniBand router",
                                                     "iWARP NIC",
                                                     "usNIC",
                                                     "usNIC UDP",
                                                     "unspecified"};
  return at(kNames, type);
}

ROCI_EXPORT const char* ibv_port_state_str(ibv_port_state state) {
  static constexpr std::array<const char*, 6> kNames{"no change", "down",   "init",
                                                     "armed",     "active", "active, deferred"};
  return at(kNames, state);
}

ROCI_EXPORT const char* ibv_event_type_str(ibv_event_type event) {
  static constexpr std::array<const char*, 20> kNames{"CQ error",
                                                      "QP fatal error",
                                                      "QP request error",
                                                      "QP access error",
                                                      "communication established",
                                                      "send queue drained",
                                                      "path migrated",
                                                      "path migration failed",
                                                      "device fatal error",
                                                      "port active",
                                                      "port error",
                                                      "LID changed",
                                                      "P_Key table changed",
                                                      "SM changed",
                                                      "SRQ error",
                                                      "SRQ limit reached",
                                                      "last WQE reached",
                                                      "client reregistration",
                                                      "GID table changed",
                                                      "WQ fatal error"};
  return at(kNames, event);
}

ROCI_EXPORT const char* ibv_wc_status_str(ibv_wc_status status) {
  static constexpr std::array<const char*, 24> kNames{"success",
                                                      "local length error",
                                                      "local QP operation error",
                                                      "local EE context operation error",
                                                      "local protection error",
                                                      "work request flushed",
                                                      "memory window bind error",
                                                      "bad response",
                                                      "local access error",
                                                      "remote invalid request",
                                                      "remote access error",
                                                      "remote operation error",
                                                      "transport retries exceeded",
                                                      "RNR retries exceeded",
                                                      "local RDD violation",
                                                      "remote invalid RD request",
                                                      "aborted by the peer",
                                                      "invalid EE context number",
                                                      "invalid EE context state",
                                                      "fatal error",
                                                      "response timeout",
                                                      "general error",
                                                      "tag matching error",
                                                      "tag matching rendezvous incomplete"};
  return at(kNames, status);
}

ROCI_EXPORT int ibv_rate_to_mult(ibv_rate rate) { return field_of(rate, &Rate::multiple); }
ROCI_EXPORT ibv_rate mult_to_ibv_rate(int multiple) { return rate_by(&Rate::multiple, multiple); }
ROCI_EXPORT int ibv_rate_to_mbps(ibv_rate rate) { return field_of(rate, &Rate::mbps); }
ROCI_EXPORT ibv_rate mbps_to_ibv_rate(int mbps) { return rate_by(&Rate::mbps, mbps); }
