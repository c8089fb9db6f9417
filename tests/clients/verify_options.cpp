#include "tests/clients/verify_options.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace verify {
namespace {

constexpr const char* kUsage =
    "usage: roci-verify [options] [SERVER] [+ [options] [SERVER]]...\n"
    "  -c rc|uc|ud (what can do less does of --ops what it can)\n"
    "  -p PORT  -x GID  -q QPS  -l CHAIN  -d BATCH  -n OPERATIONS  -s BYTES (all of this size)  -S MAXBYTES\n"
    "  -g SGES  -m MTU  -I INLINE  -e (events)  -b (both directions)  -u TIMEOUT\n"
    "  --ops send,sendimm,write,writeimm,read,cas,add  --seed N  --patience SECONDS\n"
    "  --for SECONDS (instead of -n)\n"
    "  --linger MILLISECONDS (stay so long when all is done)\n"
    "  --windows TYPE (1 or 2: the peer's keys are of memory windows, bound anew for each batch)\n"
    "  --receive-after MILLISECONDS (post receives so long after the peer may send)\n";

[[noreturn]] void usage() {
  std::fputs(kUsage, stderr);
  std::exit(1);
}

std::uint32_t parse_operations(const char* text) {
  static constexpr const char* kNames[kOperations] = {"send", "sendimm", "write", "writeimm", "read", "cas", "add"};
  std::uint32_t enabled = 0;
  std::string copy(text);
  for (char* name = std::strtok(copy.data(), ","); name != nullptr; name = std::strtok(nullptr, ",")) {
    std::uint32_t found = kOperations;
    for (std::uint32_t i = 0; i < kOperations; ++i)
      if (std::strcmp(name, kNames[i]) == 0) found = i;
    if (found == kOperations) usage();
    enabled |= 1u << found;
  }
  return enabled;
}

Transport parse_transport(const char* text) {
  if (std::strcmp(text, "rc") == 0) return Transport::kRc;
  if (std::strcmp(text, "uc") == 0) return Transport::kUc;
  if (std::strcmp(text, "ud") == 0) return Transport::kUd;
  usage();
}

/// A bit for each Operation.
std::uint32_t operations_of(Transport transport) {
  constexpr std::uint32_t kSends = 1u << kSend | 1u << kSendImm;
  switch (transport) {
    case Transport::kUc:
      return kSends | 1u << kWrite | 1u << kWriteImm;
    case Transport::kUd:
      return kSends;
    default:
      return UINT32_MAX;
  }
}

enum { kOps = 256, kSeed, kPatience, kLinger, kReceiveAfter, kWindows, kFor };

/// Where the value of an option goes that is just a number; null for the others.
std::uint32_t* number_of(int option, Options& options) {
  switch (option) {
    case 'q':
      return &options.qps;
    case 'l':
      return &options.chain;
    case 'd':
      return &options.batch;
    case 'n':
      return &options.operations;
    case 'S':
      return &options.max_bytes;
    case 'g':
      return &options.max_sges;
    case 'm':
      return &options.mtu_bytes;
    case 'I':
      return &options.inline_bytes;
    case kFor:
      return &options.run_seconds;
    case kLinger:
      return &options.linger_ms;
    case kWindows:
      return &options.window_type;
    case kReceiveAfter:
      return &options.receive_after_ms;
    default:
      return nullptr;
  }
}

}  // namespace

Options parse_options(int argc, char** argv) {
  static constexpr option kLong[] = {{"ops", required_argument, nullptr, kOps},
                                     {"seed", required_argument, nullptr, kSeed},
                                     {"patience", required_argument, nullptr, kPatience},
                                     {"for", required_argument, nullptr, kFor},
                                     {"linger", required_argument, nullptr, kLinger},
                                     {"windows", required_argument, nullptr, kWindows},
                                     {"receive-after", required_argument, nullptr, kReceiveAfter},
                                     {nullptr, 0, nullptr, 0}};
  Options options;
  optind = 0;  // the parser starts afresh for each job
  const auto number = [] { return static_cast<std::uint32_t>(std::strtoul(optarg, nullptr, 0)); };
  for (int c; (c = getopt_long(argc, argv, "c:p:x:q:l:d:n:s:S:g:m:I:u:eb", kLong, nullptr)) != -1;) {
    if (std::uint32_t* value = number_of(c, options); value != nullptr) {
      *value = number();
      continue;
    }
    switch (c) {
      case 'c':
        options.transport = parse_transport(optarg);
        break;
      case 'p':
        options.port = static_cast<int>(number());
        break;
      case 'x':
        options.gid_index = static_cast<int>(number());
        break;
      case 's':
        options.fixed_bytes = options.max_bytes = number();
        break;
      case 'u':
        options.timeout_code = static_cast<int>(number());
        break;
      case 'e':
        options.use_events = true;
        break;
      case 'b':
        options.both_directions = true;
        break;
      case kOps:
        options.enabled = parse_operations(optarg);
        break;
      case kSeed:
        options.seed = std::strtoull(optarg, nullptr, 0);
        break;
      case kPatience:
        options.seconds_without_progress = static_cast<int>(number());
        break;
      default:
        usage();
    }
  }
  options.enabled &= operations_of(options.transport);
  if (options.enabled == 0) usage();
  if (optind < argc) options.server = argv[optind++];
  if (optind < argc || options.qps == 0 || options.chain == 0 || options.batch == 0 || options.max_sges == 0) usage();
  if (options.window_type > (options.transport == Transport::kRc ? 2u : 0u)) usage();
  return options;
}

}  // namespace verify
