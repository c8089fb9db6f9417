// Two communication managers and a network between them in virtual time, which loses, doubles and reorders as told.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "stack/base/random.h"
#include "stack/cm/connection_manager.h"

namespace roci::cm {

/// Draws that a seed gives.
class SeededEntropy : public Entropy {
 public:
  explicit SeededEntropy(std::uint64_t seed) : random_(seed) {}
  std::uint64_t next() override { return random_.next(); }

 private:
  Random random_;
};

/// What became of an id, with the data copied.
struct SeenEvent {
  EventType type;
  Connection* connection;
  Connection* listener;
  std::uint32_t status;
  ConnectionParameters peer;
  std::vector<std::byte> data;
};

/// What the network does to a message: how many copies arrive, and when each does.
using Fate = std::function<std::vector<Duration>(const Mad& message)>;

class MadNetwork {
 public:
  static constexpr std::size_t kEnds = 2;

  explicit MadNetwork(std::uint64_t seed = 1);

  static IpAddress address(std::size_t end) { return IpAddress::v4(0xc612'0001 + static_cast<std::uint32_t>(end)); }
  ConnectionManager& manager(std::size_t end) { return ends_[end].manager; }
  std::vector<SeenEvent>& events(std::size_t end) { return ends_[end].events; }
  Instant now() const { return now_; }

  /// From now on for every message; none is lost and each takes 10 us until then.
  void set_fate(Fate fate) { fate_ = std::move(fate); }
  /// Requests that end 1 has room for.
  void set_backlog(std::size_t backlog) { ends_[1].backlog = backlog; }
  /// Of either end, as the other is told: 0 for one that is not there.
  void set_incarnation(std::uint64_t incarnation) { incarnation_ = incarnation; }
  /// All messages that were sent, in order.
  const std::vector<Mad>& sent() const { return sent_; }
  std::size_t count_sent(CmAttribute attribute) const;

  /// Lets what is due happen until nothing is, or until `until`.
  void run(Instant until);
  void run_for(Duration duration) { run(now_ + duration); }
  /// Called with each event when it is raised and the managers are not in the middle of their work.
  std::function<void(std::size_t end, const SeenEvent&)> on_event = [](std::size_t, const SeenEvent&) {};

  /// An id that listens at end 1, for port 7000.
  Connection* listen(PortSpace space = PortSpace::kTcp);
  /// An id at end 0 that has asked end 1 for a connection to port 7000.
  Connection* connect(std::span<const std::byte> data = {}, std::uint32_t qpn = 0x111);
  Connection* make_bound(std::size_t end, PortSpace space, std::uint16_t port);

 private:
  class End : public MadTransport, public EventHandler {
   public:
    End(MadNetwork& network, std::size_t index, std::uint64_t seed);
    void send(const MadPath& path, const Mad& message) override { network_.send(path, message); }
    std::uint64_t incarnation(const MadPath&) override { return network_.incarnation_; }
    bool on_cm_event(const Event& event) override;

    std::vector<SeenEvent> events;
    std::size_t handled = 0;
    std::size_t backlog = SIZE_MAX;
    std::size_t requests = 0;
    SeededEntropy entropy;
    Counters counters;
    ConnectionManager manager;

   private:
    MadNetwork& network_;
  };
  struct Message {
    MadPath path;
    Mad mad;
  };

  void send(const MadPath& path, const Mad& message);
  void tell_events();
  Instant next() const;

  Instant now_{};
  std::uint64_t incarnation_ = 1;
  Fate fate_;
  std::vector<Mad> sent_;
  std::multimap<Instant, Message> under_way_;
  std::array<End, kEnds> ends_;
};

inline const ConnectionParameters kServerParameters{.qpn = Qpn{0x222}, .responder_resources = 2, .initiator_depth = 3};

}  // namespace roci::cm
