#include "stack/engine/gsi.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

namespace roci {
namespace {

constexpr std::size_t kMaxWays = 64;
constexpr std::size_t kMaxQueued = 4096;
constexpr std::uint32_t kQpnBlockShift = 18;

}  // namespace

Gsi::~Gsi() {
  for (const auto& way : ways_) port_.release_route(way->route);
}

Gsi::Way* Gsi::find_way(const IpAddress& local, const IpAddress& remote, std::uint32_t qpn_block) {
  const auto found = std::find_if(ways_.begin(), ways_.end(), [&](const auto& way) {
    return way->local == local && way->remote == remote && way->qpn_block == qpn_block;
  });
  if (found != ways_.end()) return found->get();
  Route* route = port_.acquire_route(remote, Qpn{qpn_block << kQpnBlockShift | kGsiQpn});
  if (route == nullptr) return nullptr;
  if (ways_.size() >= kMaxWays) forget_idle_way();
  auto way =
      std::make_unique<Way>(Way{.local = local, .remote = remote, .qpn_block = qpn_block, .route = route, .path = {}});
  AddressVector av;
  av.dgid = remote;
  way->path.set(local, av, udp_source_port(0, Qpn{kGsiQpn}, Qpn{kGsiQpn}), Qpn{kGsiQpn}, false);
  ways_.push_back(std::move(way));
  return ways_.back().get();
}

/// The oldest that no queued message is to take.
void Gsi::forget_idle_way() {
  const auto idle = std::find_if(ways_.begin(), ways_.end(), [&](const auto& way) {
    return std::none_of(queue_.begin(), queue_.end(), [&](const Queued& queued) { return queued.way == way.get(); });
  });
  if (idle == ways_.end()) return;
  port_.release_route((*idle)->route);
  ways_.erase(idle);
}

void Gsi::send(const IpAddress& local, const IpAddress& remote, std::uint32_t remote_qpn_block, const Mad& message) {
  Way* way = queue_.size() < kMaxQueued ? find_way(local, remote, remote_qpn_block) : nullptr;
  if (way == nullptr) {
    ++counters_.tx_mads_dropped;
    return;
  }
  queue_.push_back({way, message});
}

bool Gsi::pass_on(const IpAddress& local, const IpAddress& remote, const Mad& message) {
  const std::optional<std::uint32_t> next = port_.next_of_host();
  if (next.has_value()) send(remote, local, *next, message);
  return next.has_value();
}

std::uint64_t Gsi::incarnation(const IpAddress& remote, std::uint32_t remote_qpn_block) {
  return port_.incarnation(remote, Qpn{remote_qpn_block << kQpnBlockShift | kGsiQpn});
}

std::uint32_t Gsi::build(const Queued& queued, std::byte* frame) {
  const PacketPlan plan{.opcode = Opcode::kUdSendOnly, .psn = psn_, .payload_bytes = Mad::kSize};
  psn_ = psn_ + 1;
  std::byte* out = queued.way->path.open(frame, *queued.way->route, plan);
  Deth{.qkey = kGsiQkey, .src_qpn = Qpn{kGsiQpn}}.write(out);
  std::memcpy(out + Deth::kSize, queued.message.bytes.data(), Mad::kSize);
  return queued.way->path.close(frame, *queued.way->route, plan);
}

std::uint32_t Gsi::transmit() {
  std::uint32_t sent = 0;
  // A peer whose ring is full does not stand in the way of the others.
  std::erase_if(queue_, [&](const Queued& queued) {
    std::array<TxSlot, 1> slot;
    if (port_.tx_reserve(*queued.way->route, slot) == 0) return false;
    const std::array<std::uint32_t, 1> size{build(queued, slot[0].data)};
    port_.tx_commit(*queued.way->route, size);
    ++counters_.tx_packets;
    ++counters_.tx_mads;
    counters_.tx_bytes += size[0];
    ++sent;
    return true;
  });
  return sent;
}

void Gsi::on_packet(const Inbound& in) {
  const PacketView& view = in.view;
  const bool is_mad = view.info->transport == Transport::kUd && view.payload_bytes == Mad::kSize &&
                      !view.info->has(Extension::kImmDt) && view.deth().qkey == kGsiQkey &&
                      view.deth().src_qpn.value == kGsiQpn;
  const std::vector<IpAddress> own = port_.attributes().addresses;
  if (receiver_ == nullptr || !is_mad || std::find(own.begin(), own.end(), view.destination()) == own.end()) {
    ++counters_.rx_mads_dropped;
    return;
  }
  ++counters_.rx_mads;
  Mad message;
  std::memcpy(message.bytes.data(), in.payload, Mad::kSize);
  receiver_->on_mad(view.destination(), view.source(), message, in.now);
}

}  // namespace roci
