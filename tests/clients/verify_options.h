// Command line of the byte-checking client.
#pragma once

#include <cstdint>
#include <string>

namespace verify {

enum Operation : std::uint32_t { kSend, kSendImm, kWrite, kWriteImm, kRead, kCompareSwap, kFetchAdd, kOperations };

enum class Transport { kRc, kUc, kUd };

struct Options {
  std::string server;  ///< empty: be the server
  int port = 18515;
  int gid_index = -1;  ///< -1: the first IPv4 one
  Transport transport = Transport::kRc;
  std::uint32_t qps = 1;
  std::uint32_t chain = 1;         ///< work requests a call of ibv_post_send
  std::uint32_t batch = 16;        ///< operations of a QP between two looks at memory
  std::uint32_t operations = 256;  ///< of each QP
  std::uint32_t run_seconds = 0;   ///< not 0: batch after batch for so long instead, until the first end has enough
  std::uint32_t max_bytes = 20000;
  std::uint32_t fixed_bytes = UINT32_MAX;
  std::uint32_t max_sges = 4;
  std::uint32_t mtu_bytes = 0;  ///< 0: the port's
  std::uint32_t inline_bytes = 64;
  std::uint32_t enabled = 0xff;  ///< a bit for each Operation
  std::uint64_t seed = 1;
  bool use_events = false;
  bool both_directions = false;
  int timeout_code = 14;
  int seconds_without_progress = 60;
  std::uint32_t linger_ms = 0;
  std::uint32_t window_type = 0;  ///< of the windows that open each end's memory to the peer; 0: none, the region does
  std::uint32_t receive_after_ms = 0;  ///< receives are posted so long after the peer may send
};

/// Prints usage and exits on a bad command line.
Options parse_options(int argc, char** argv);

}  // namespace verify
