// The neighbours of a port without a kernel behind it: it answers for its own addresses (ARP, neighbour discovery,
// echo) and finds those of others. Frames and `now` go in, frames and the next deadline come out.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "stack/base/types.h"
#include "stack/neighbour/formats.h"
#include "stack/wire/address.h"

namespace roci {

struct NeighbourCounters {
  std::uint64_t arp = 0;           ///< ARP frames
  std::uint64_t discovery = 0;     ///< neighbour discovery messages
  std::uint64_t echo = 0;          ///< echo requests that were answered
  std::uint64_t malformed = 0;     ///< of these kinds, but wrong
  std::uint64_t conflicts = 0;     ///< others that say they have an address of the port's
  std::uint64_t answer_drops = 0;  ///< answers that there was no room for
};

/// Owner: the worker. Only addresses that were asked for with find() are remembered, so no peer can fill the table.
class Neighbourhood {
 public:
  static constexpr std::size_t kLargestAnswer = 1536;  ///< an echo request that is larger gets no answer

  // Times of RFC 4861, section 10.
  static constexpr Duration kRetransmit = seconds(1);
  static constexpr Duration kReachable = seconds(30);
  static constexpr int kMulticastTries = 3;
  static constexpr int kUnicastTries = 3;

  Neighbourhood(const MacAddress& mac, std::vector<IpAddress> own);

  /// Tells the neighbours where the port's addresses are: once, when it comes up.
  void announce();
  /// The MAC address of a neighbour that is known. Looks for one that is not, and goes on looking until forget().
  std::optional<MacAddress> find(const IpAddress& address, Instant now);
  void forget(const IpAddress& address);

  /// A frame that is not RoCE, from the Ethernet header. True if it was of the kinds that belong here.
  bool take(std::span<const std::byte> frame, Instant now);
  Instant next_deadline() const { return next_deadline_; }
  void on_deadline(Instant now);
  /// True once after a neighbour was found, moved or lost.
  bool take_change();

  /// The next frame to send; empty when there is none. Valid until the next call of anything here.
  std::span<const std::byte> next_frame();

  const NeighbourCounters& counters() const { return counters_; }

 private:
  enum class State : std::uint8_t { kIncomplete, kReachable, kProbing };
  struct Neighbour {
    IpAddress address;
    MacAddress mac;
    State state = State::kIncomplete;
    int tries = 0;
    Instant due{};
  };
  struct Frame {
    std::size_t size = 0;
    std::array<std::byte, kLargestAnswer> bytes;
  };
  static constexpr std::uint32_t kFrames = 64;

  bool is_own(const IpAddress& address) const;
  Neighbour* known(const IpAddress& address);
  /// `is_answer`: to a question of the port's, not just heard.
  void learn(const IpAddress& address, const MacAddress& mac, bool is_answer, Instant now);
  void ask(const Neighbour& neighbour);
  void look(Neighbour& neighbour, Instant now);
  void set_deadline();
  std::byte* add_frame(std::size_t bytes);  ///< null when there is no room

  void take_arp(std::span<const std::byte> frame, Instant now);
  bool take_icmp(std::span<const std::byte> frame);
  bool take_icmpv6(std::span<const std::byte> frame, Instant now);
  void take_solicitation(std::span<const std::byte> frame, std::span<const std::byte> message, Instant now);
  void take_advertisement(std::span<const std::byte> message, Instant now);
  void answer_echo(std::span<const std::byte> frame, std::size_t l4_at);
  void send_arp(std::uint16_t operation, const MacAddress& to, const ArpPacket& packet);
  void send_discovery(const NeighbourMessage& message, const IpAddress& from, const IpAddress& to,
                      const MacAddress& to_mac);
  IpAddress own_of_family(const IpAddress& like) const;

  const MacAddress mac_;
  const std::vector<IpAddress> own_;
  std::vector<Neighbour> neighbours_;
  Instant next_deadline_ = kNever;
  bool is_changed_ = false;
  NeighbourCounters counters_;
  std::array<Frame, kFrames> frames_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
};

}  // namespace roci
