#include "tests/unit/cm/mad_network.h"

#include <algorithm>

namespace roci::cm {
namespace {

constexpr std::uint16_t kPort = 7000;

}  // namespace

MadNetwork::End::End(MadNetwork& network, std::size_t index, std::uint64_t seed)
    : entropy(seed * kEnds + index),
      manager(*this, entropy, counters,
              {.ca_guid = 0x100 + index, .path_mtu = 4, .id_block = static_cast<std::uint32_t>(index)}),
      network_(network) {
  manager.set_handler(this);
}

bool MadNetwork::End::on_cm_event(const Event& event) {
  if (event.type == EventType::kRequest) {
    if (requests == backlog) return false;
    ++requests;
    event.connection->user = this;
  }
  events.push_back({event.type,
                    event.connection,
                    event.listener,
                    event.status,
                    event.peer,
                    {event.private_data.begin(), event.private_data.end()}});
  return true;
}

MadNetwork::MadNetwork(std::uint64_t seed)
    : fate_([](const Mad&) { return std::vector{microseconds(10)}; }),
      ends_{End(*this, 0, seed), End(*this, 1, seed)} {}

std::size_t MadNetwork::count_sent(CmAttribute attribute) const {
  return static_cast<std::size_t>(
      std::count_if(sent_.begin(), sent_.end(), [&](const Mad& mad) { return cm_attribute(mad) == attribute; }));
}

void MadNetwork::send(const MadPath& path, const Mad& message) {
  sent_.push_back(message);
  for (const Duration delay : fate_(message)) under_way_.emplace(now_ + delay, Message{path, message});
}

Instant MadNetwork::next() const {
  Instant at = under_way_.empty() ? kNever : under_way_.begin()->first;
  for (const End& end : ends_) at = std::min(at, end.manager.next_deadline());
  return at;
}

void MadNetwork::tell_events() {
  for (std::size_t end = 0; end < kEnds; ++end) {
    while (ends_[end].handled < ends_[end].events.size()) {
      const SeenEvent event = ends_[end].events[ends_[end].handled++];
      on_event(end, event);
    }
  }
}

void MadNetwork::run(Instant until) {
  tell_events();
  for (Instant at = next(); at <= until && at != kNever; at = next()) {
    now_ = std::max(now_, at);
    while (!under_way_.empty() && under_way_.begin()->first <= now_) {
      const Message message = under_way_.extract(under_way_.begin()).mapped();
      const std::size_t to = message.path.remote == address(0) ? 0 : 1;
      ends_[to].manager.on_mad({.local = message.path.remote, .remote = message.path.local}, message.mad, now_);
      tell_events();
    }
    for (End& end : ends_) end.manager.on_deadline(now_);
    tell_events();
  }
  if (until != kNever) now_ = std::max(now_, until);
}

Connection* MadNetwork::make_bound(std::size_t end, PortSpace space, std::uint16_t port) {
  Connection* made = manager(end).create(space, &ends_[end]);
  return manager(end).bind(*made, {address(end), port}) == 0 ? made : nullptr;
}

Connection* MadNetwork::listen(PortSpace space) {
  Connection* made = make_bound(1, space, kPort);
  return manager(1).listen(*made, now_) == 0 ? made : nullptr;
}

Connection* MadNetwork::connect(std::span<const std::byte> data, std::uint32_t qpn) {
  Connection* made = make_bound(0, PortSpace::kTcp, 0);
  manager(0).set_route(*made, address(0), {address(1), kPort});
  const ConnectionParameters own{
      .qpn = Qpn{qpn}, .responder_resources = 4, .initiator_depth = 5, .retry_count = 6, .rnr_retry_count = 7};
  const int error = manager(0).connect(*made, own, {.path_mtu = 4, .ack_timeout = kDefaultAckTimeout}, data, now_);
  return error == 0 ? made : nullptr;
}

}  // namespace roci::cm
