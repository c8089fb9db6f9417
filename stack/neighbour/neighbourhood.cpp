#include "stack/neighbour/neighbourhood.h"

#include <algorithm>
#include <utility>

namespace roci {
namespace {

constexpr std::size_t kL3 = EthernetHeader::kSize;
constexpr IpAddress kAllNodes{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

/// RFC 4291, 2.7.1: the group that those whose address ends like this one listen to.
IpAddress solicited_node(const IpAddress& address) {
  IpAddress group{{0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff}};
  std::copy_n(address.bytes.begin() + 13, 3, group.bytes.begin() + 13);
  return group;
}

IpAddress read_address(const std::byte* p) {
  IpAddress address;
  std::memcpy(address.bytes.data(), p, address.bytes.size());
  return address;
}

/// The link-layer address in an option of a neighbour discovery message, if there is one (RFC 4861, 4.6). False if the
/// options are malformed.
bool read_option(std::span<const std::byte> message, std::uint8_t type, std::optional<MacAddress>* mac) {
  for (std::size_t at = NeighbourMessage::kOptionAt; at < message.size();) {
    if (message.size() - at < 8) return false;
    const std::size_t bytes = std::to_integer<std::size_t>(message[at + 1]) * 8;
    if (bytes == 0 || bytes > message.size() - at) return false;
    if (std::to_integer<std::uint8_t>(message[at]) == type) {
      MacAddress found;
      std::memcpy(found.bytes.data(), message.data() + at + 2, found.bytes.size());
      *mac = found;
    }
    at += bytes;
  }
  return true;
}

}  // namespace

Neighbourhood::Neighbourhood(const MacAddress& mac, std::vector<IpAddress> own) : mac_(mac), own_(std::move(own)) {}

bool Neighbourhood::is_own(const IpAddress& address) const {
  return std::find(own_.begin(), own_.end(), address) != own_.end();
}

Neighbourhood::Neighbour* Neighbourhood::known(const IpAddress& address) {
  const auto found = std::find_if(neighbours_.begin(), neighbours_.end(),
                                  [&](const Neighbour& neighbour) { return neighbour.address == address; });
  return found == neighbours_.end() ? nullptr : &*found;
}

bool Neighbourhood::take_change() { return std::exchange(is_changed_, false); }

void Neighbourhood::announce() {
  for (const IpAddress& own : own_) {
    if (own.is_v4()) {
      const std::uint32_t ip = own.v4_host_order();
      send_arp(ArpPacket::kRequest, kBroadcastMac, {.sender_ip = ip, .target_mac = {}, .target_ip = ip});
    } else {
      send_discovery(
          {.type = kNeighbourAdvertisement, .flags = NeighbourMessage::kOverride, .target = own, .mac = mac_}, own,
          kAllNodes, multicast_mac(kAllNodes));
    }
  }
}

std::optional<MacAddress> Neighbourhood::find(const IpAddress& address, Instant now) {
  Neighbour* neighbour = known(address);
  if (neighbour == nullptr) {
    neighbour = &neighbours_.emplace_back(Neighbour{.address = address});
    look(*neighbour, now);
    set_deadline();
  }
  if (neighbour->state == State::kIncomplete) return std::nullopt;
  return neighbour->mac;
}

void Neighbourhood::forget(const IpAddress& address) {
  std::erase_if(neighbours_, [&](const Neighbour& neighbour) { return neighbour.address == address; });
  set_deadline();
}

void Neighbourhood::learn(const IpAddress& address, const MacAddress& mac, bool is_answer, Instant now) {
  if (is_own(address)) {
    if (mac != mac_) ++counters_.conflicts;
    return;
  }
  Neighbour* neighbour = known(address);
  if (neighbour == nullptr) return;
  is_changed_ |= neighbour->state == State::kIncomplete || neighbour->mac != mac;
  // What is only heard does not prove that the neighbour hears us.
  if (is_answer || neighbour->state == State::kIncomplete || neighbour->mac != mac) {
    neighbour->state = State::kReachable;
    neighbour->due = now + kReachable;
    neighbour->tries = 0;
  }
  neighbour->mac = mac;
  set_deadline();
}

/// One more question, and when to ask the next; a neighbour that has been silent for long is asked everywhere again.
void Neighbourhood::look(Neighbour& neighbour, Instant now) {
  if (neighbour.state == State::kReachable) {
    neighbour.state = State::kProbing;
    neighbour.tries = 0;
  }
  if (neighbour.state == State::kProbing && neighbour.tries == kUnicastTries) {
    neighbour.state = State::kIncomplete;
    neighbour.tries = 0;
    is_changed_ = true;
  }
  ask(neighbour);
  ++neighbour.tries;
  // Nobody there: less often, for whoever may yet come.
  const int rounds = neighbour.state == State::kIncomplete ? neighbour.tries / (kMulticastTries + 1) : 0;
  neighbour.due = now + Duration{kRetransmit.ps * std::min(1 + rounds, 8)};
}

void Neighbourhood::ask(const Neighbour& neighbour) {
  const IpAddress own = own_of_family(neighbour.address);
  if (own.is_unspecified()) return;
  const bool everywhere = neighbour.state == State::kIncomplete;
  if (neighbour.address.is_v4()) {
    send_arp(ArpPacket::kRequest, everywhere ? kBroadcastMac : neighbour.mac,
             {.sender_ip = own.v4_host_order(), .target_mac = {}, .target_ip = neighbour.address.v4_host_order()});
    return;
  }
  const IpAddress to = everywhere ? solicited_node(neighbour.address) : neighbour.address;
  send_discovery({.type = kNeighbourSolicitation, .target = neighbour.address, .mac = mac_}, own, to,
                 everywhere ? multicast_mac(to) : neighbour.mac);
}

IpAddress Neighbourhood::own_of_family(const IpAddress& like) const {
  const auto found =
      std::find_if(own_.begin(), own_.end(), [&](const IpAddress& address) { return address.is_v4() == like.is_v4(); });
  return found == own_.end() ? IpAddress{} : *found;
}

void Neighbourhood::set_deadline() {
  next_deadline_ = kNever;
  for (const Neighbour& neighbour : neighbours_) next_deadline_ = std::min(next_deadline_, neighbour.due);
}

void Neighbourhood::on_deadline(Instant now) {
  if (now < next_deadline_) return;
  for (Neighbour& neighbour : neighbours_)
    if (neighbour.due <= now) look(neighbour, now);
  set_deadline();
}

std::byte* Neighbourhood::add_frame(std::size_t bytes) {
  if (tail_ - head_ == kFrames || bytes > kLargestAnswer) {
    ++counters_.answer_drops;
    return nullptr;
  }
  Frame& frame = frames_[tail_++ % kFrames];
  frame.size = bytes;
  return frame.bytes.data();
}

std::span<const std::byte> Neighbourhood::next_frame() {
  if (head_ == tail_) return {};
  const Frame& frame = frames_[head_++ % kFrames];
  return {frame.bytes.data(), frame.size};
}

void Neighbourhood::send_arp(std::uint16_t operation, const MacAddress& to, const ArpPacket& packet) {
  std::byte* frame = add_frame(kL3 + ArpPacket::kSize);
  if (frame == nullptr) return;
  EthernetHeader{.destination = to, .source = mac_, .ether_type = kEtherTypeArp}.write(frame);
  ArpPacket sent = packet;
  sent.operation = operation;
  sent.sender_mac = mac_;
  sent.write(frame + kL3);
}

void Neighbourhood::send_discovery(const NeighbourMessage& message, const IpAddress& from, const IpAddress& to,
                                   const MacAddress& to_mac) {
  std::byte* frame = add_frame(kL3 + Ipv6Header::kSize + NeighbourMessage::kSize);
  if (frame == nullptr) return;
  EthernetHeader{.destination = to_mac, .source = mac_, .ether_type = kEtherTypeIpv6}.write(frame);
  Ipv6Header{.payload_bytes = NeighbourMessage::kSize,
             .next_header = kIpProtocolIcmpv6,
             .hop_limit = kNeighbourHopLimit,
             .source = from,
             .destination = to}
      .write(frame + kL3);
  std::byte* body = frame + kL3 + Ipv6Header::kSize;
  message.write(body);
  store_be<std::uint16_t>(body + 2, icmpv6_checksum(frame + kL3, {body, NeighbourMessage::kSize}));
}

bool Neighbourhood::take(std::span<const std::byte> frame, Instant now) {
  if (frame.size() < kL3) return false;
  switch (load_be<std::uint16_t>(frame.data() + 12)) {
    case kEtherTypeArp:
      take_arp(frame, now);
      return true;
    case kEtherTypeIpv4:
      return take_icmp(frame);
    case kEtherTypeIpv6:
      return take_icmpv6(frame, now);
    default:
      return false;
  }
}

void Neighbourhood::take_arp(std::span<const std::byte> frame, Instant now) {
  ++counters_.arp;
  ArpPacket packet;
  if (frame.size() < kL3 + ArpPacket::kSize || !ArpPacket::read(frame.data() + kL3, &packet)) {
    ++counters_.malformed;
    return;
  }
  const IpAddress target = IpAddress::v4(packet.target_ip);
  const bool is_answer = packet.operation == ArpPacket::kReply && packet.target_mac == mac_;
  if (packet.sender_ip != 0) learn(IpAddress::v4(packet.sender_ip), packet.sender_mac, is_answer, now);
  if (packet.operation != ArpPacket::kRequest || !is_own(target) || packet.sender_mac == mac_) return;
  send_arp(ArpPacket::kReply, packet.sender_mac,
           {.sender_ip = packet.target_ip, .target_mac = packet.sender_mac, .target_ip = packet.sender_ip});
}

bool Neighbourhood::take_icmp(std::span<const std::byte> frame) {
  if (frame.size() < kL3 + Ipv4Header::kSize) return false;
  const Ipv4Header ip = Ipv4Header::read(frame.data() + kL3);
  if (ip.protocol != kIpProtocolIcmp) return false;
  constexpr std::size_t kIcmpAt = kL3 + Ipv4Header::kSize;
  const bool whole = ip.version_ihl == 0x45 && (ip.flags_fragment & Ipv4Header::kFragmentMask) == 0 &&
                     ip.total_bytes >= Ipv4Header::kSize + 8 && kL3 + ip.total_bytes <= frame.size();
  const auto message = whole ? frame.subspan(kIcmpAt, ip.total_bytes - Ipv4Header::kSize) : frame.first(0);
  if (!whole || ipv4_header_sum(frame.data() + kL3) != 0xffff || internet_checksum(internet_sum(message)) != 0) {
    ++counters_.malformed;
    return true;
  }
  if (std::to_integer<std::uint8_t>(message[0]) == kIcmpEchoRequest && is_own(IpAddress::v4(ip.destination)))
    answer_echo(frame.first(kL3 + ip.total_bytes), kIcmpAt);
  return true;
}

bool Neighbourhood::take_icmpv6(std::span<const std::byte> frame, Instant now) {
  if (frame.size() < kL3 + Ipv6Header::kSize) return false;
  const std::byte* l3 = frame.data() + kL3;
  const Ipv6Header ip = Ipv6Header::read(l3);
  if (ip.next_header != kIpProtocolIcmpv6) return false;
  constexpr std::size_t kIcmpAt = kL3 + Ipv6Header::kSize;
  const bool whole = ip.payload_bytes >= 8 && kIcmpAt + ip.payload_bytes <= frame.size();
  const auto message = whole ? frame.subspan(kIcmpAt, ip.payload_bytes) : frame.first(0);
  if (!whole || icmpv6_checksum(l3, message) != 0) {
    ++counters_.malformed;
    return true;
  }
  const auto type = std::to_integer<std::uint8_t>(message[0]);
  if (type == kIcmpv6EchoRequest && is_own(ip.destination)) answer_echo(frame.first(kIcmpAt + message.size()), kIcmpAt);
  if (type != kNeighbourSolicitation && type != kNeighbourAdvertisement) return true;
  ++counters_.discovery;
  if (ip.hop_limit != kNeighbourHopLimit || message[1] != std::byte{0} ||
      message.size() < NeighbourMessage::kOptionAt || read_address(message.data() + 8).is_multicast()) {
    ++counters_.malformed;
    return true;
  }
  if (type == kNeighbourSolicitation)
    take_solicitation(frame, message, now);
  else
    take_advertisement(message, now);
  return true;
}

void Neighbourhood::take_solicitation(std::span<const std::byte> frame, std::span<const std::byte> message,
                                      Instant now) {
  const Ipv6Header ip = Ipv6Header::read(frame.data() + kL3);
  const IpAddress target = read_address(message.data() + 8);
  std::optional<MacAddress> mac;
  if (!read_option(message, NeighbourMessage::kSourceOption, &mac)) {
    ++counters_.malformed;
    return;
  }
  // Someone who has no address yet asks if anybody has this one (RFC 4862, 5.4): all are to hear the answer.
  const bool is_nameless = ip.source.is_unspecified();
  if (!is_nameless && mac.has_value()) learn(ip.source, *mac, false, now);
  if (!is_own(target)) return;
  const std::uint32_t flags = NeighbourMessage::kOverride | (is_nameless ? 0 : NeighbourMessage::kSolicited);
  const MacAddress asker = mac.value_or(EthernetHeader::read(frame.data()).source);
  send_discovery({.type = kNeighbourAdvertisement, .flags = flags, .target = target, .mac = mac_}, target,
                 is_nameless ? kAllNodes : ip.source, is_nameless ? multicast_mac(kAllNodes) : asker);
}

void Neighbourhood::take_advertisement(std::span<const std::byte> message, Instant now) {
  std::optional<MacAddress> mac;
  if (!read_option(message, NeighbourMessage::kTargetOption, &mac)) {
    ++counters_.malformed;
    return;
  }
  const auto flags = load_be<std::uint32_t>(message.data() + 4);
  const IpAddress target = read_address(message.data() + 8);
  const bool is_answer = (flags & NeighbourMessage::kSolicited) != 0;
  const Neighbour* neighbour = known(target);
  // The answer to a question sent straight to the neighbour may leave its own address out.
  if (!mac.has_value() && neighbour != nullptr && neighbour->state != State::kIncomplete) mac = neighbour->mac;
  if (!mac.has_value()) return;
  // Without the override flag another address than the known one is not believed (RFC 4861, 7.2.5).
  const bool is_other = neighbour != nullptr && neighbour->state != State::kIncomplete && neighbour->mac != *mac;
  if (is_other && (flags & NeighbourMessage::kOverride) == 0) return;
  learn(target, *mac, is_answer, now);
}

/// The request with addresses swapped and the other type; the checksum changes by what the type does.
void Neighbourhood::answer_echo(std::span<const std::byte> frame, std::size_t l4_at) {
  std::byte* out = add_frame(frame.size());
  if (out == nullptr) return;
  ++counters_.echo;
  std::memcpy(out, frame.data(), frame.size());
  const EthernetHeader asked = EthernetHeader::read(frame.data());
  EthernetHeader{.destination = asked.source, .source = mac_, .ether_type = asked.ether_type}.write(out);
  std::byte* message = out + l4_at;
  store_be<std::uint16_t>(message + 2, 0);
  if (asked.ether_type == kEtherTypeIpv4) {
    std::memcpy(out + kL3 + 12, frame.data() + kL3 + 16, 4);
    std::memcpy(out + kL3 + 16, frame.data() + kL3 + 12, 4);
    message[0] = std::byte{kIcmpEchoReply};
    store_be<std::uint16_t>(message + 2, internet_checksum(internet_sum({message, frame.size() - l4_at})));
    return;
  }
  std::memcpy(out + kL3 + 8, frame.data() + kL3 + 24, 16);
  std::memcpy(out + kL3 + 24, frame.data() + kL3 + 8, 16);
  message[0] = std::byte{kIcmpv6EchoReply};
  store_be<std::uint16_t>(message + 2, icmpv6_checksum(out + kL3, {message, frame.size() - l4_at}));
}

}  // namespace roci
