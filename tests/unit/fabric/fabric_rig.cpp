#include "tests/unit/fabric/fabric_rig.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace roci::fabric {
namespace {

constexpr std::size_t kStoredPayload = 12;

RoutingTable star_routes(std::uint32_t hosts) {
  RoutingTable routes;
  for (std::uint32_t host = 0; host < hosts; ++host)
    routes.set_ports(host, std::vector<std::uint16_t>{static_cast<std::uint16_t>(host)});
  return routes;
}

IpAddress v6_of(std::uint32_t host) {
  IpAddress address{{0xfd}};
  address.bytes[15] = static_cast<std::uint8_t>(host + 1);
  return address;
}

void write_l3(std::byte* l3, const FrameSpec& spec) {
  const auto traffic_class = static_cast<std::uint8_t>(spec.priority << 5 | static_cast<unsigned>(spec.ecn));
  const auto l3_bytes = static_cast<std::uint16_t>(spec.frame_bytes - EthernetHeader::kSize);
  if (!spec.is_v4) {
    Ipv6Header{.traffic_class = traffic_class,
               .payload_bytes = static_cast<std::uint16_t>(l3_bytes - Ipv6Header::kSize),
               .next_header = kIpProtocolUdp,
               .hop_limit = 64,
               .source = v6_of(spec.source),
               .destination = v6_of(spec.destination)}
        .write(l3);
    return;
  }
  Ipv4Header header{.traffic_class = traffic_class,
                    .total_bytes = l3_bytes,
                    .ttl = 64,
                    .protocol = kIpProtocolUdp,
                    .source = 0xc612'0001 + spec.source,
                    .destination = 0xc612'0001 + spec.destination};
  header.write(l3);
  header.checksum = static_cast<std::uint16_t>(~ipv4_header_sum(l3));
  header.write(l3);
}

}  // namespace

Frame* make_frame(FramePool& pool, const FrameSpec& spec) {
  const std::size_t l3_bytes = spec.is_v4 ? Ipv4Header::kSize : Ipv6Header::kSize;
  const std::size_t headers = EthernetHeader::kSize + l3_bytes + UdpHeader::kSize;
  const auto stored = static_cast<std::uint32_t>(headers + kStoredPayload);
  Frame* frame = pool.allocate(stored);
  std::memset(frame->bytes + headers, 0x5a, kStoredPayload);
  EthernetHeader{{{2, 0}}, {{2, 1}}, spec.is_v4 ? kEtherTypeIpv4 : kEtherTypeIpv6}.write(frame->bytes);
  write_l3(frame->bytes + EthernetHeader::kSize, spec);
  UdpHeader{spec.udp_source_port, kRoceUdpPort, static_cast<std::uint16_t>(spec.frame_bytes - 14 - l3_bytes), 0}.write(
      frame->bytes + EthernetHeader::kSize + l3_bytes);
  frame->frame_bytes = spec.frame_bytes;
  frame->stored_bytes = stored;
  frame->source = spec.source;
  frame->destination = spec.destination;
  return frame;
}

Frame* make_pfc(FramePool& pool, std::uint16_t class_enable, const std::array<std::uint16_t, 8>& quanta) {
  Frame* frame = pool.allocate(Frame::kMinBytes);
  std::memset(frame->bytes, 0, Frame::kMinBytes);
  EthernetHeader{{{1, 0x80, 0xc2, 0, 0, 1}}, {{2, 0}}, kEtherTypeMacControl}.write(frame->bytes);
  PfcFrame{.class_enable = class_enable, .time_quanta = quanta}.write(frame->bytes + EthernetHeader::kSize);
  frame->frame_bytes = Frame::kMinBytes;
  frame->stored_bytes = Frame::kMinBytes;
  return frame;
}

void Agenda::run_until(Instant end) {
  while (!actions_.empty() && actions_.begin()->first <= end) {
    const auto node = actions_.extract(actions_.begin());
    now_ = node.key();
    node.mapped()();
  }
  now_ = end;
}

Rig::Rig(const SwitchConfig& config, std::uint32_t hosts, std::uint64_t seed, const SwitchPortConfig& port)
    : Rig(config, std::vector<SwitchPortConfig>(hosts, port), seed) {}

Rig::Rig(const SwitchConfig& config, std::span<const SwitchPortConfig> ports, std::uint64_t seed)
    : sw(config, ports, star_routes(static_cast<std::uint32_t>(ports.size())), pool, seed, 0),
      ports_(ports.begin(), ports.end()),
      hosts_(ports.size()),
      turn_at_(ports.size(), kNever) {}

void Rig::send(const FrameSpec& spec, std::uint64_t frames, Instant start) {
  hosts_[spec.source].streams.push_back({spec, 0});
  const std::size_t stream = hosts_[spec.source].streams.size() - 1;
  agenda.at(start, [this, host = spec.source, stream, frames] {
    hosts_[host].streams[stream].left = frames;
    host_sends(host);
  });
}

void Rig::inject(unsigned port, const FrameSpec& spec, Instant at) {
  agenda.at(at, [this, port, spec] { receive(port, make_frame(pool, spec)); });
}

void Rig::inject_pfc(unsigned port, unsigned priority, std::uint16_t quanta, Instant at) {
  std::array<std::uint16_t, 8> times{};
  times[priority] = quanta;
  agenda.at(at, [this, port, priority, times] {
    receive(port, make_pfc(pool, static_cast<std::uint16_t>(1u << priority), times));
  });
}

void Rig::receive(unsigned port, Frame* frame) {
  if (passes) {
    const Passage passage = sw.pass(port, frame, agenda.now());
    if (passage.transmission.frame != nullptr) {
      ++passed;
      return leave(passage.port, passage.transmission);
    }
  }
  sw.receive(port, frame, agenda.now());
  serve_woken();
}

void Rig::turn(unsigned port) {
  const Transmission sent = sw.advance(port, agenda.now());
  if (sent.frame != nullptr) leave(port, sent);
  serve_woken();
  schedule(turn_at_[port], sw.next_deadline(port, agenda.now()), [this, port] { turn(port); });
}

void Rig::leave(unsigned port, const Transmission& sent) {
  agenda.at(sent.arrives, [this, port, frame = sent.frame] { arrive(port, frame); });
}

void Rig::schedule(Instant& scheduled, Instant at, std::function<void()> action) {
  if (at >= scheduled) return;
  scheduled = at;
  agenda.at(at, [this, &scheduled, action = std::move(action)] {
    if (agenda.now() != scheduled) return;
    scheduled = kNever;
    action();
  });
}

void Rig::serve_woken() {
  const std::vector<std::uint16_t> woken(sw.woken().begin(), sw.woken().end());
  sw.clear_woken();
  for (const std::uint16_t port : woken) turn(port);
}

/// A host's link is as the switch's port.
void Rig::host_sends(unsigned number) {
  Host& host = hosts_[number];
  const Instant now = agenda.now();
  if (now < host.busy_until) return;
  const std::uint8_t paused = host.pauses.mask(now);
  std::uint8_t waiting = 0;
  for (Stream& stream : host.streams) {
    if (stream.left == 0) continue;
    if ((paused >> stream.spec.priority & 1) != 0) {
      waiting = static_cast<std::uint8_t>(waiting | 1u << stream.spec.priority);
      continue;
    }
    --stream.left;
    Frame* frame = make_frame(pool, stream.spec);
    host.busy_until = now + egress::wire_time(frame->wire_bytes(), ports_[number].rate_bps);
    agenda.at(host.busy_until + ports_[number].delay, [this, number, frame] { receive(number, frame); });
    agenda.at(host.busy_until, [this, number] { host_sends(number); });
    return;
  }
  if (waiting != 0)
    schedule(host.resumes_at, host.pauses.earliest_end(waiting), [this, number] { host_sends(number); });
}

void Rig::arrive(unsigned number, Frame* frame) {
  Host& host = hosts_[number];
  const Instant now = agenda.now();
  host.last_frame.assign(frame->bytes, frame->bytes + frame->stored_bytes);
  if (frame->kind == FrameKind::kPfc) {
    host.pfc_received.push_back({now, host.last_frame});
    const PfcFrame pfc = host.pfc_received.back().pfc();
    for (unsigned priority = 0; priority < 8; ++priority)
      if ((pfc.class_enable >> priority & 1) != 0)
        host.pauses.pause(priority, egress::pause_quantum(ports_[number].rate_bps) * pfc.time_quanta[priority], now);
    host_sends(number);
  } else {
    host.received.push_back({now, frame->source, frame->frame_bytes, frame->priority});
  }
  pool.free(frame);
}

std::uint64_t Rig::drops(DropReason reason) const {
  std::uint64_t sum = 0;
  for (unsigned port = 0; port < sw.ports(); ++port)
    for (unsigned priority = 0; priority < 8; ++priority)
      sum += sw.counters(port, priority).drops[static_cast<std::size_t>(reason)];
  return sum;
}

std::uint64_t Rig::drops() const {
  std::uint64_t sum = 0;
  for (std::size_t reason = 0; reason < kDropReasons; ++reason) sum += drops(static_cast<DropReason>(reason));
  return sum;
}

}  // namespace roci::fabric
