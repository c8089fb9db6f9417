// Ends of a cable in processes of their own, as they always are: the locks that tell the living belong to processes.
#include "drivers/cable/cable.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <functional>
#include <string>

#include "drivers/live/clock.h"
#include "stack/wire/mad.h"

namespace roci {
namespace {

std::string cable_name() {
  static int count = 0;
  return "unit." + std::to_string(getpid()) + "." + std::to_string(++count);
}

bool file_exists(const std::string& name) { return access(cable::file_path(name).c_str(), F_OK) == 0; }

/// A process that runs `body`; it talks with the test through two pipes, a line at a time.
class Process {
 public:
  using Body = std::function<void(Process&)>;

  explicit Process(const Body& body) {
    int down[2];
    int up[2];
    if (pipe(down) != 0 || pipe(up) != 0) std::abort();
    signal(SIGPIPE, SIG_IGN);  // a body may be done before it is let go
    pid_ = fork();
    if (pid_ == 0) {
      close(down[1]);
      close(up[0]);
      // A test that dies takes its processes with it.
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      in_ = down[0];
      out_ = up[1];
      body(*this);
      _exit(0);
    }
    close(down[0]);
    close(up[1]);
    in_ = up[0];
    out_ = down[1];
  }
  ~Process() {
    if (pid_ > 0) end();
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void say(const std::string& line) {
    const std::string text = line + "\n";
    if (write(out_, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(3);
  }
  /// The next line; empty when the other side has closed.
  std::string hear() {
    std::string line;
    for (char c = 0; read(in_, &c, 1) == 1 && c != '\n';) line += c;
    return line;
  }
  /// Says a line, for which the body waits, and waits for its end. (Closing the pipe would not do: processes that were
  /// forked later hold it too.)
  void end() {
    static_cast<void>(!write(out_, "\n", 1));
    close(out_);
    int status = 0;
    waitpid(pid_, &status, 0);
    close(in_);
    pid_ = -1;
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
  }
  void kill_hard() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(in_);
    close(out_);
    pid_ = -1;
  }

 private:
  pid_t pid_ = -1;
  int in_ = -1;
  int out_ = -1;
};

std::string text(const IpAddress& address) {
  if (!address.is_v4()) return "v6 " + std::to_string(address.bytes[15]);
  const std::uint32_t v4 = address.v4_host_order();
  return std::to_string(v4 >> 24) + "." + std::to_string(v4 >> 16 & 255) + "." + std::to_string(v4 >> 8 & 255) + "." +
         std::to_string(v4 & 255);
}

/// Joins and says "block addresses..."; or the error. Then stays until the test lets go.
Process::Body join(const CableConfig& config) {
  return [config](Process& self) {
    std::string error;
    auto port = CablePort::open(config, &error);
    if (port == nullptr) return self.say(std::string("error ") + std::strerror(errno));
    const PortAttributes attributes = port->attributes();
    std::string line = std::to_string(attributes.qpn_block);
    for (const IpAddress& address : attributes.addresses) line += " " + text(address);
    self.say(line);
    self.hear();
  };
}

TEST(Cable, open__lowest_free_end_and_its_addresses) {
  const std::string name = cable_name();
  Process first(join({.name = name}));
  EXPECT_EQ(first.hear(), "0 198.18.0.1 v6 1");
  Process second(join({.name = name}));
  EXPECT_EQ(second.hear(), "1 198.18.0.2 v6 2");
  Process third(join({.name = name}));
  EXPECT_EQ(third.hear(), "2 198.18.0.3 v6 3");
  second.end();
  Process again(join({.name = name}));
  EXPECT_EQ(again.hear(), "1 198.18.0.2 v6 2");
}

TEST(Cable, open__killed_end_is_free_again_and_the_last_to_leave_takes_the_file_away) {
  const std::string name = cable_name();
  {
    Process first(join({.name = name}));
    EXPECT_EQ(first.hear(), "0 198.18.0.1 v6 1");
    Process second(join({.name = name}));
    second.hear();
    first.kill_hard();
    Process third(join({.name = name}));
    EXPECT_EQ(third.hear(), "0 198.18.0.1 v6 1");
    EXPECT_TRUE(file_exists(name));
  }
  EXPECT_FALSE(file_exists(name));
}

TEST(Cable, open__cable_whose_ends_were_all_killed_starts_afresh_and_leaves_nothing) {
  const std::string name = cable_name();
  const std::string other = cable_name();
  Process first(join({.name = name}));
  first.hear();
  Process second(join({.name = other}));
  second.hear();
  first.kill_hard();
  second.kill_hard();
  EXPECT_TRUE(file_exists(name));
  Process third(join({.name = name}));
  EXPECT_EQ(third.hear(), "0 198.18.0.1 v6 1");
  EXPECT_FALSE(file_exists(other)) << "what another cable's dead left behind";
  third.end();
  EXPECT_FALSE(file_exists(name));
}

TEST(Cable, open__address_of_a_living_end_is_refused_but_for_the_same_host) {
  const std::string name = cable_name();
  const std::vector<IpAddress> address{IpAddress::v4(0xc6120707)};
  Process first(join({.name = name, .addresses = address, .host = "alpha"}));
  EXPECT_EQ(first.hear(), "0 198.18.7.7");
  Process stranger(join({.name = name, .addresses = address}));
  EXPECT_EQ(stranger.hear(), std::string("error ") + std::strerror(EADDRINUSE));
  Process other_host(join({.name = name, .addresses = address, .host = "beta"}));
  EXPECT_EQ(other_host.hear(), std::string("error ") + std::strerror(EADDRINUSE));
  Process same_host(join({.name = name, .host = "alpha"}));
  EXPECT_EQ(same_host.hear(), "1 198.18.7.7");
}

TEST(Cable, open__default_addresses_that_somebody_chose_are_passed_over) {
  const std::string name = cable_name();
  Process first(join({.name = name, .addresses = {IpAddress::v4(0xc6120002)}}));
  EXPECT_EQ(first.hear(), "0 198.18.0.2");
  Process second(join({.name = name}));
  EXPECT_EQ(second.hear(), "2 198.18.0.3 v6 3");
}

/// Sends one frame that holds `value` towards `to`.
bool send(CablePort& port, Route& route, std::uint32_t value) {
  TxSlot slot;
  port.begin_turn(live_now(), TurnReason::kPost);
  const bool has_room = port.tx_reserve(route, {&slot, 1}) == 1;
  if (has_room) {
    std::memcpy(slot.data, &value, sizeof value);
    const std::uint32_t bytes = sizeof value;
    port.tx_commit(route, {&bytes, 1});
  }
  port.end_turn(live_now());
  return has_room;
}

/// The value of the next frame, waiting for it as a background thread does.
std::uint32_t receive(CablePort& port) {
  for (;;) {
    port.prepare_wait(true);
    RxFrame frame;
    port.begin_turn(live_now(), TurnReason::kBackground);
    const bool got = port.rx_burst({&frame, 1}) == 1;
    std::uint32_t value = 0;
    if (got) std::memcpy(&value, frame.data, sizeof value);
    port.rx_release();
    port.end_turn(live_now());
    if (got) {
      port.cancel_wait();
      return value;
    }
    port.wait(seconds(20));
  }
}

/// As join(), with `count` ends.
Process::Body join_with_ends(const CableConfig& config, std::size_t count) {
  return [config, count](Process& self) {
    std::string error;
    auto ends = CablePort::open_ends(config, count, &error);
    if (ends.empty()) return self.say(std::string("error ") + std::strerror(errno));
    std::string line;
    for (const auto& end : ends) {
      const PortAttributes attributes = end->attributes();
      line += std::to_string(attributes.qpn_block) + " " + text(attributes.addresses.front()) + " ";
    }
    self.say(line);
    self.hear();
  };
}

TEST(Cable, open_ends__share_addresses_and_have_a_block_each_and_leave_together) {
  const std::string name = cable_name();
  {
    Process first(join({.name = name}));
    first.hear();
    Process several(join_with_ends({.name = name}, 3));
    EXPECT_EQ(several.hear(), "1 198.18.0.2 2 198.18.0.2 3 198.18.0.2 ");
    Process next(join({.name = name}));
    EXPECT_EQ(next.hear(), "4 198.18.0.5 v6 5");
    several.end();
    Process again(join_with_ends({.name = name}, 2));
    EXPECT_EQ(again.hear(), "1 198.18.0.2 2 198.18.0.2 ");
    again.kill_hard();
    Process third(join_with_ends({.name = name}, 2));
    EXPECT_EQ(third.hear(), "1 198.18.0.2 2 198.18.0.2 ");
  }
  EXPECT_FALSE(file_exists(name));
}

TEST(Cable, open_ends__all_or_none_where_there_is_no_place) {
  const std::string name = cable_name();
  Process many(join_with_ends({.name = name}, cable::kMaxEnds - 1));
  many.hear();
  Process too_many(join_with_ends({.name = name}, 2));
  EXPECT_EQ(too_many.hear(), std::string("error ") + std::strerror(EUSERS));
  Process fits(join({.name = name}));
  EXPECT_EQ(fits.hear(), "63 198.18.0.64 v6 64");
}

/// Each end gets what is for its block; QP1 is at the first, whoever asks for it and in whatever way.
TEST(Cable, open_ends__frames_reach_the_end_that_has_the_number) {
  const std::string name = cable_name();
  std::string error;
  Process other(join({.name = name}));
  other.hear();
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Process peer([name](Process& self) {
    std::string own_error;
    auto ends = CablePort::open_ends({.name = name, .addresses = {IpAddress::v4(0xc6120707)}}, 2, &own_error);
    self.say("ready");
    for (;;) {
      const std::string which = self.hear();
      self.say(std::to_string(receive(*ends[which == "first" ? 0 : 1])));
    }
  });
  ASSERT_EQ(peer.hear(), "ready");
  const IpAddress address = IpAddress::v4(0xc6120707);
  const auto expect_at = [&](const char* end, Qpn qpn) {
    Route* route = port->acquire_route(address, qpn);
    ASSERT_TRUE(send(*port, *route, qpn.value));
    peer.say(end);
    EXPECT_EQ(peer.hear(), std::to_string(qpn.value));
  };
  expect_at("first", Qpn{2u << 18 | 77});
  expect_at("second", Qpn{3u << 18 | 77});
  expect_at("first", Qpn{kGsiQpn});
  expect_at("first", Qpn{2u << 18 | kGsiQpn});
  expect_at("first", Qpn{3u << 18 | kGsiQpn});
  peer.kill_hard();
}

const IpAddress kGroup = IpAddress::v4(0xefff0203);
const IpAddress kOtherGroup = IpAddress::v4(0xefff0204);

/// Joins, the groups too, and says each value that it receives.
Process::Body receiver(const std::string& name, const std::vector<IpAddress>& groups = {}) {
  return [name, groups](Process& self) {
    std::string error;
    auto port = CablePort::open({.name = name}, &error);
    for (const IpAddress& group : groups) port->join_group(group);
    self.say("ready");
    for (;;) self.say(std::to_string(receive(*port)));
  };
}

TEST(Cable, wait__frame_wakes_a_process_that_sleeps_deeply) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Process peer(receiver(name));
  ASSERT_EQ(peer.hear(), "ready");
  Route* route = port->acquire_route(IpAddress::v4(0xc6120002), Qpn{1u << 18});
  for (std::uint32_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(send(*port, *route, i));
    ASSERT_EQ(peer.hear(), std::to_string(i));
  }
  peer.kill_hard();
}

/// While the rest of the turn's frames are made, the peer gets up.
TEST(Cable, bell__of_a_sleeping_peer_rings_at_the_first_frames_of_a_turn) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Process peer([name](Process& self) {
    std::string own_error;
    auto own = CablePort::open({.name = name}, &own_error);
    own->prepare_wait(true);
    self.say("asleep");
    pause();
  });
  ASSERT_EQ(peer.hear(), "asleep");
  Route* route = port->acquire_route(IpAddress::v4(0xc6120002), Qpn{1u << 18});
  auto* counters = reinterpret_cast<CableCounters*>(port->counter_region().data() + port->counter_region().size());
  const std::array<std::uint32_t, 1> bytes{64};
  TxSlot slot;
  const Instant now = live_now();
  port->begin_turn(now, TurnReason::kPost);
  for (int burst = 0; burst < 2; ++burst) {
    ASSERT_EQ(port->tx_reserve(*route, {&slot, 1}), 1u);
    port->tx_commit(*route, bytes);
    EXPECT_EQ(counters->cable_doorbells, 1u);
  }
  port->end_turn(now);
  EXPECT_EQ(counters->cable_doorbells, 1u) << "once is enough";
  peer.kill_hard();
}

TEST(Cable, route__follows_a_peer_that_is_killed_and_comes_back) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Route* route = port->acquire_route(IpAddress::v4(0xc6120002), Qpn{1u << 18});
  auto* counters = reinterpret_cast<CableCounters*>(port->counter_region().data() + port->counter_region().size());
  ASSERT_TRUE(send(*port, *route, 0));
  EXPECT_EQ(counters->cable_tx_no_peer_drops, 1u) << "nobody is there yet";
  for (std::uint32_t round = 1; round <= 3; ++round) {
    Process peer(receiver(name));
    ASSERT_EQ(peer.hear(), "ready");
    ASSERT_TRUE(send(*port, *route, round));
    EXPECT_EQ(peer.hear(), std::to_string(round));
    peer.kill_hard();
  }
  EXPECT_EQ(counters->cable_tx_no_peer_drops, 1u);
}

TEST(Cable, peer_stalled__while_a_living_peer_takes_nothing_and_not_once_it_is_dead) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Process peer(join({.name = name}));
  peer.hear();
  Route* route = port->acquire_route(IpAddress::v4(0xc6120002), Qpn{1u << 18});
  std::uint32_t sent = 0;
  while (send(*port, *route, sent)) ++sent;
  EXPECT_EQ(sent, cable::kSlots) << "a full ring is back-pressure";
  EXPECT_TRUE(port->peer_stalled(*route));
  peer.kill_hard();
  // Liveness is looked up at most every 20 ms of the clock that turns are told.
  port->begin_turn(live_now() + seconds(1), TurnReason::kPoll);
  EXPECT_FALSE(port->peer_stalled(*route));
  port->end_turn(live_now() + seconds(1));
}

TEST(Cable, loopback__frames_to_the_own_address_come_back) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Route* route = port->acquire_route(IpAddress::v4(0xc6120001), Qpn{5});
  for (std::uint32_t i = 0; i < 3 * cable::kSlots; ++i) {
    ASSERT_TRUE(send(*port, *route, i));
    ASSERT_EQ(receive(*port), i);
  }
}

TEST(Cable, group__every_end_that_hears_it_gets_a_copy_and_no_other) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  port->join_group(kGroup);
  Route* route = port->acquire_route(kGroup, Qpn{0xffffff});
  // RFC 1112, section 6.4.
  const std::array<std::uint8_t, 6> mac{0x01, 0x00, 0x5e, 0x7f, 0x02, 0x03};
  EXPECT_EQ(std::memcmp(route->l2.data(), mac.data(), mac.size()), 0);
  Process first(receiver(name, {kGroup, kGroup}));
  Process second(receiver(name, {kGroup}));
  Process stranger(receiver(name, {kOtherGroup}));
  for (Process* process : {&first, &second, &stranger}) ASSERT_EQ(process->hear(), "ready");
  // More than a ring holds.
  for (std::uint32_t i = 0; i < 2 * cable::kSlots; ++i) {
    ASSERT_TRUE(send(*port, *route, i));
    ASSERT_EQ(receive(*port), i);
    ASSERT_EQ(first.hear(), std::to_string(i));
    ASSERT_EQ(second.hear(), std::to_string(i));
  }
  // Its first frame is of the group that it is in.
  Route* other = port->acquire_route(kOtherGroup, Qpn{0xffffff});
  ASSERT_TRUE(send(*port, *other, 77777));
  EXPECT_EQ(stranger.hear(), "77777");
  for (Process* process : {&first, &second, &stranger}) process->kill_hard();
}

TEST(Cable, group__waits_for_a_member_that_takes_nothing_but_not_for_ever) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Process sleeper([&name](Process& self) {
    std::string reason;
    auto own = CablePort::open({.name = name}, &reason);
    own->join_group(kGroup);
    self.say("ready");
    self.hear();
  });
  ASSERT_EQ(sleeper.hear(), "ready");
  Route* route = port->acquire_route(kGroup, Qpn{0xffffff});
  std::uint32_t sent = 0;
  while (send(*port, *route, sent)) ++sent;
  EXPECT_EQ(sent, cable::kSlots) << "a full ring is back-pressure";
  auto* counters = reinterpret_cast<CableCounters*>(port->counter_region().data() + port->counter_region().size());
  EXPECT_EQ(counters->cable_tx_group_drops, 0u);
  const Instant later = live_now() + seconds(10);
  TxSlot slot;
  port->begin_turn(later, TurnReason::kPost);
  ASSERT_EQ(port->tx_reserve(*route, {&slot, 1}), 1u);
  const std::uint32_t bytes = 64;
  port->tx_commit(*route, {&bytes, 1});
  port->end_turn(later);
  EXPECT_EQ(counters->cable_tx_group_drops, 1u);
}

TEST(Cable, group__without_anybody_in_it_is_nobody) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Route* route = port->acquire_route(kGroup, Qpn{0xffffff});
  port->join_group(kGroup);
  port->leave_group(kGroup);
  ASSERT_TRUE(send(*port, *route, 1));
  auto* counters = reinterpret_cast<CableCounters*>(port->counter_region().data() + port->counter_region().size());
  EXPECT_EQ(counters->cable_tx_no_peer_drops, 1u);
}

TEST(Cable, frames_published_before_a_peer_leaves_are_still_taken) {
  const std::string name = cable_name();
  std::string error;
  auto port = CablePort::open({.name = name}, &error);
  ASSERT_NE(port, nullptr) << error;
  Process peer([&name](Process& self) {
    std::string reason;
    auto own = CablePort::open({.name = name}, &reason);
    Route* route = own->acquire_route(IpAddress::v4(0xc6120001), Qpn{0});
    for (std::uint32_t i = 0; i < 10; ++i) send(*own, *route, i);
    own.reset();
    self.say("left");
  });
  ASSERT_EQ(peer.hear(), "left");
  for (std::uint32_t i = 0; i < 10; ++i) EXPECT_EQ(receive(*port), i);
}

}  // namespace
}  // namespace roci
