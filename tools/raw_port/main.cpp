// roci-raw-port: an ethdev port by itself, driven as its driver is meant to be, with one copy and one CRC a frame. Two
// of them say what the way between carries without a protocol; `roci bench` sets Rocinante beside that.
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "drivers/dpdk/eal.h"
#include "drivers/dpdk/ethdev.h"
#include "drivers/dpdk/netdev.h"
#include "drivers/dpdk/netlink.h"
#include "drivers/live/clock.h"
#include "stack/wire/headers_l3.h"
#include "tools/roci/bench/cores.h"
#include "tools/roci/bench/frame_work.h"

namespace roci {
namespace {

constexpr std::uint16_t kBurst = 32;
constexpr Duration kWait = seconds(10);
constexpr int kUsageStatus = 2;

struct Options {
  std::string link;  ///< netdev:INTERFACE/DRIVER, or vdev:STRING
  bool sends = false;
  std::uint32_t frame_bytes = 0;
  Duration length{};
};

/// Such as the filters of a kernel interface let through: UDP to RoCE's port, for a group that nobody has joined.
void write_headers(std::byte* frame, std::uint32_t frame_bytes, const MacAddress& source) {
  constexpr std::uint32_t kGroup = 0xe0000064;
  constexpr std::uint32_t kSource = 0xc6120001;
  const auto ip_bytes = static_cast<std::uint16_t>(frame_bytes - EthernetHeader::kSize);
  EthernetHeader{.destination = multicast_mac(IpAddress::v4(kGroup)), .source = source, .ether_type = kEtherTypeIpv4}
      .write(frame);
  Ipv4Header{.total_bytes = ip_bytes, .ttl = 1, .protocol = kIpProtocolUdp, .source = kSource, .destination = kGroup}
      .write(frame + EthernetHeader::kSize);
  UdpHeader{.source_port = kRoceUdpPort,
            .destination_port = kRoceUdpPort,
            .bytes = static_cast<std::uint16_t>(ip_bytes - Ipv4Header::kSize)}
      .write(frame + EthernetHeader::kSize + Ipv4Header::kSize);
}

/// What is open, of either kind of link.
struct Device {
  std::unique_ptr<dpdk::Netdev> netdev;
  std::unique_ptr<dpdk::Ethdev> own;

  bool open(const std::string& link, std::string* error) {
    constexpr std::string_view kNetdev = "netdev:";
    constexpr std::string_view kVdev = "vdev:";
    if (link.starts_with(kNetdev)) return open_netdev(link.substr(kNetdev.size()), error);
    if (link.starts_with(kVdev)) return open_vdev(link.substr(kVdev.size()), error);
    *error = link + " is neither netdev:INTERFACE/DRIVER nor vdev:STRING";
    return false;
  }
  dpdk::Ethdev& ethdev() { return netdev != nullptr ? netdev->device() : *own; }

 private:
  bool open_netdev(const std::string& name, std::string* error) {
    const std::size_t slash = name.find('/');
    const std::string interface = name.substr(0, slash);
    dpdk::Netlink kernel;
    if (!kernel.open(interface, error)) return false;
    const std::optional<dpdk::InterfaceState> state = kernel.read_state();
    if (state.has_value())
      netdev =
          dpdk::Netdev::open(interface, slash == std::string::npos ? "auto" : name.substr(slash + 1), *state, error);
    return netdev != nullptr;
  }
  bool open_vdev(const std::string& text, std::string* error) {
    constexpr std::uint32_t kBufferBytes = 8192;
    const std::size_t comma = text.find(',');
    own = dpdk::Ethdev::open({.bus = "vdev",
                              .device = text.substr(0, comma),
                              .arguments = comma == std::string::npos ? "" : text.substr(comma + 1),
                              .buffer_bytes = kBufferBytes},
                             error);
    return own != nullptr;
  }
};

class RawPort {
 public:
  explicit RawPort(dpdk::Ethdev& device) : device_(device), mac_(device.mac()) {}

  /// Until the time is over: who receives ends the pair.
  void send(std::uint32_t frame_bytes) {
    const Instant until = live_now() + kWait;
    while (live_now() < until) {
      std::array<rte_mbuf*, kBurst> frames;
      if (!device_.allocate(frames.data(), kBurst)) continue;
      for (rte_mbuf* frame : frames) {
        auto* data = rte_pktmbuf_mtod(frame, std::byte*);
        write_headers(data, frame_bytes, mac_);
        work_.fill(data, frame_bytes);
        frame->data_len = static_cast<std::uint16_t>(frame_bytes);
        frame->pkt_len = frame_bytes;
      }
      for (std::uint16_t sent = 0; sent < kBurst && live_now() < until;)
        sent += rte_eth_tx_burst(device_.id(), 0, &frames[sent], static_cast<std::uint16_t>(kBurst - sent));
    }
  }

  /// Frames a second from the second burst on, for `length`; 0 if none came.
  double receive(std::uint32_t frame_bytes, Duration length) {
    std::uint64_t count = 0;
    Instant start{};
    const Instant until = live_now() + kWait;
    for (Instant now = live_now(); now < until; now = live_now()) {
      const std::uint32_t got = receive_burst(frame_bytes);
      if (start == Instant{} && got > 0)
        start = now;
      else
        count += got;
      if (start != Instant{} && now - start > length)
        return static_cast<double>(count) * 1e12 / static_cast<double>((now - start).ps);
    }
    return 0;
  }

 private:
  /// How many of the frames were ours.
  std::uint32_t receive_burst(std::uint32_t frame_bytes) {
    std::array<rte_mbuf*, kBurst> frames;
    const std::uint16_t got = rte_eth_rx_burst(device_.id(), 0, frames.data(), kBurst);
    std::uint32_t good = 0;
    for (std::uint16_t i = 0; i < got; ++i)
      good += rte_pktmbuf_data_len(frames[i]) == frame_bytes &&
              work_.take(rte_pktmbuf_mtod(frames[i], const std::byte*), frame_bytes);
    device_.free(frames.data(), got);
    return good;
  }

  dpdk::Ethdev& device_;
  const MacAddress mac_;
  bench::FrameWork work_;
};

bool parse(int count, char** arguments, Options* options) {
  constexpr std::uint32_t kLargestFrameBytes = 4300;
  constexpr int kArguments = 5;
  if (count != kArguments) return false;
  const std::string_view role = arguments[1];
  options->sends = role == "send";
  options->link = arguments[2];
  options->frame_bytes = static_cast<std::uint32_t>(std::atoi(arguments[3]));
  options->length = milliseconds(std::atoi(arguments[4]));
  return (options->sends || role == "receive") && options->frame_bytes > bench::kHeaderBytes + bench::kIcrcBytes &&
         options->frame_bytes <= kLargestFrameBytes;
}

int run(const Options& options) {
  std::string error;
  Device device;
  if (!dpdk::start_eal("", &error) || !device.open(options.link, &error)) {
    std::fprintf(stderr, "roci-raw-port: %s\n", error.c_str());
    return EXIT_FAILURE;
  }
  std::puts("ready");
  std::fflush(stdout);
  bench::put_on_core(options.sends ? 0 : 1);
  RawPort port(device.ethdev());
  if (options.sends)
    port.send(options.frame_bytes);
  else
    std::printf("%.0f frames/s\n", port.receive(options.frame_bytes, options.length));
  std::fflush(stdout);
  // Not closed in good order: DPDK's memif may crash when its peer goes first.
  _exit(EXIT_SUCCESS);
}

}  // namespace
}  // namespace roci

int main(int count, char** arguments) {
  roci::Options options;
  if (roci::parse(count, arguments, &options)) return roci::run(options);
  std::fprintf(stderr, "usage: roci-raw-port send|receive LINK FRAME_BYTES MILLISECONDS\n");
  return roci::kUsageStatus;
}
