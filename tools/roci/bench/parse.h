// What the measured programs print, and what the load of two ends says of their limit. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace roci::bench {

struct Bandwidth {
  double gbps = 0;
  double messages_per_s = 0;
};

/// In microseconds.
struct Latency {
  double typical = 0;
  double percent_99 = 0;
  double percent_999 = 0;
};

// Each gives nothing if the text is not what it expects.
/// The last row of the table of an ib_*_bw with --report_gbits.
std::optional<Bandwidth> parse_perftest_bandwidth(std::string_view text);
/// The last row of the table of an ib_*_lat.
std::optional<Latency> parse_perftest_latency(std::string_view text);
/// iperf3 -J: what was received, in Gb/s.
std::optional<double> parse_iperf3(std::string_view text);
/// sockperf ping-pong: half a round trip.
std::optional<Latency> parse_sockperf(std::string_view text);
/// A column of the last line of ucx_perftest -f -v.
std::optional<double> parse_ucx(std::string_view text, std::string_view column);

/// How busy one end of a connection was.
struct EndLoad {
  double cores = 0;               ///< CPU time of all its threads over the time of the clock
  double ring_full_per_1000 = 0;  ///< times that the cable had no room, per 1000 frames it sent
};
struct Load {
  EndLoad client;
  EndLoad server;
};

/// The medians of each number.
Load median_load(const std::vector<Load>& loads);
/// Which of the two is the slower one, as a sentence with the numbers.
std::string limit_of(const Load& load);

/// True if one of the lines of a /proc/net/tcp is of a socket that listens on `port`.
bool lists_listener(std::string_view table, unsigned port);

}  // namespace roci::bench
