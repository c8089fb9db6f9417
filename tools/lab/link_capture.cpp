#include "tools/lab/link_capture.h"

#include <fmt/format.h>

#include <span>

namespace roci::lab {
namespace {

constexpr std::string_view kHost = "host";
constexpr std::string_view kSwitch = "switch";

std::uint64_t stamp(Instant now) { return static_cast<std::uint64_t>((now - Instant{}).ns()); }

std::string name_of(const CaptureEnd& end) {
  return end.is_host ? fmt::format("{}{}", kHost, end.node) : fmt::format("{}{}:{}", kSwitch, end.node, end.port);
}

/// What leaves the other end.
sim::FabricLink& link_towards(sim::FabricNetwork& network, const CaptureEnd& end) {
  if (end.is_host) return network.link_to_host(end.node);
  const fabric::LinkEnd& peer = network.topology().switches[end.node].ports[end.port].peer;
  return peer.is_host ? network.host_link(peer.node) : network.fabric_switch(peer.node).link(peer.port);
}

}  // namespace

Parsed<CaptureEnd> parse_capture_end(std::string_view text, const Scenario& scenario) {
  if (text.starts_with(kHost)) {
    const auto host = parse_count(text.substr(kHost.size()));
    if (host && host.value < scenario.hosts.size())
      return {{.is_host = true, .node = static_cast<std::uint32_t>(host.value), .port = 0}, {}};
    return {{}, fmt::format("\"{}\" is none of host0 to host{}", text, scenario.hosts.size() - 1)};
  }
  const std::size_t colon = text.find(':');
  if (!text.starts_with(kSwitch) || colon == std::string_view::npos)
    return {{}, fmt::format("\"{}\" is not a link, as in host3 or switch0:2", text)};
  const auto number = parse_count(text.substr(kSwitch.size(), colon - kSwitch.size()));
  const auto port = parse_count(text.substr(colon + 1));
  const auto switches = fabric::make_topology(scenario.topology).switches;
  if (!number || number.value >= switches.size())
    return {{}, fmt::format("\"{}\" is none of switch0 to switch{}", text, switches.size() - 1)};
  const std::size_t ports = switches[number.value].ports.size();
  if (!port || port.value >= ports)
    return {{}, fmt::format("\"{}\" is none of the ports 0 to {} of switch{}", text, ports - 1, number.value)};
  return {{.is_host = false,
           .node = static_cast<std::uint32_t>(number.value),
           .port = static_cast<std::uint32_t>(port.value)},
          {}};
}

std::unique_ptr<LinkCapture> LinkCapture::open(const std::string& path, const CaptureEnd& end, std::string* error) {
  auto writer = PcapngWriter::open(path, name_of(end), error);
  if (writer == nullptr) return nullptr;
  return std::unique_ptr<LinkCapture>(new LinkCapture(std::move(writer), end));
}

void LinkCapture::attach(sim::FabricNetwork& network) {
  sim::FabricLink& out = end_.is_host ? network.host_link(end_.node) : network.fabric_switch(end_.node).link(end_.port);
  out.set_observer(&outbound_);
  link_towards(network, end_).set_observer(&inbound_);
}

void LinkCapture::write(const fabric::Frame& frame, Instant now, CaptureDirection direction) {
  ++frames_;
  writer_->write_frame({.wall_ns = stamp(now), .bytes = frame.frame_bytes, .direction = direction},
                       std::span(frame.bytes, frame.stored_bytes));
}

bool LinkCapture::finish(Instant now) {
  writer_->write_statistics(stamp(now), frames_, 0);
  return writer_->flush();
}

}  // namespace roci::lab
