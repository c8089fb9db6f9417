#include "drivers/live/live_config.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <map>
#include <string>
#include <vector>

namespace roci {
namespace {

using Variables = std::map<std::string, std::string>;

/// The error is empty when the variables were taken.
struct Parsed {
  LiveConfig config;
  std::string error;
};

Parsed parse(const Variables& variables) {
  Parsed parsed;
  const auto lookup = [&](const char* name) -> const char* {
    const auto row = variables.find(name);
    return row == variables.end() ? nullptr : row->second.c_str();
  };
  const bool good = parse_live_config(lookup, &parsed.config, &parsed.error);
  EXPECT_EQ(good, parsed.error.empty()) << parsed.error;
  return parsed;
}

std::string error_of(const char* variable, const std::string& value) { return parse({{variable, value}}).error; }

TEST(LiveConfig, parse_live_config__nothing_set_gives_the_default_cable) {
  const Parsed parsed = parse({});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.config.device_name, "roci0");
  EXPECT_EQ(parsed.config.link.kind, "cable");
  EXPECT_EQ(parsed.config.link.name, "default");
  EXPECT_TRUE(parsed.config.addresses.empty());
  EXPECT_EQ(parsed.config.mtu_bytes, 4096u);
  EXPECT_EQ(parsed.config.progress, "auto");
}

TEST(LiveConfig, parse_live_config__an_empty_variable_is_one_not_set) {
  const Parsed parsed = parse({{"ROCI_LINK", ""}, {"ROCI_IP", ""}, {"ROCI_MTU", ""}});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.config.link.name, "default");
}

TEST(LiveConfig, parse_live_config__every_variable_has_its_field) {
  const Parsed parsed = parse({{"ROCI_LINK", "cable:lab-1"},
                               {"ROCI_NAME", "roci3"},
                               {"ROCI_IP", "198.18.0.7/24,fd00::7/64"},
                               {"ROCI_HOST", "left"},
                               {"ROCI_MTU", "1024"},
                               {"ROCI_PROGRESS", "inline"},
                               {"ROCI_CAPTURE", "/tmp/a b.pcapng"}});
  EXPECT_EQ(parsed.error, "");
  EXPECT_EQ(parsed.config.link.name, "lab-1");
  EXPECT_EQ(parsed.config.device_name, "roci3");
  EXPECT_EQ(parsed.config.host, "left");
  EXPECT_EQ(parsed.config.mtu_bytes, 1024u);
  EXPECT_EQ(parsed.config.progress, "inline");
  EXPECT_EQ(parsed.config.capture, "/tmp/a b.pcapng");
  ASSERT_EQ(parsed.config.addresses.size(), 2u);
  EXPECT_EQ(parsed.config.addresses[0], (IpPrefix{IpAddress::v4(0xc6120007), 24}));
  const IpAddress v6{{0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7}};
  EXPECT_EQ(parsed.config.addresses[1], (IpPrefix{v6, 64}));
}

TEST(LiveConfig, parse_live_config__devices_of_dpdk) {
  const Parsed vdev = parse({{"ROCI_LINK", "vdev:net_tap0,iface=tap0"}});
  EXPECT_EQ(vdev.config.link.kind, "vdev");
  EXPECT_EQ(vdev.config.link.name, "net_tap0,iface=tap0");
  EXPECT_EQ(parse({{"ROCI_LINK", "pci:0000:3b:00.1"}}).config.link.name, "0000:3b:00.1");
  for (const char* link : {"vdev", "vdev:tap0", "pci", "pci:3b", "pci:0000:3b:00", "pci:eth0"})
    EXPECT_NE(error_of("ROCI_LINK", link), "") << link;
}

TEST(LiveConfig, parse_live_config__an_interface_may_name_its_driver) {
  const Parsed plain = parse({{"ROCI_LINK", "netdev:eth0"}});
  EXPECT_EQ(plain.config.link.name, "eth0");
  EXPECT_EQ(plain.config.link.driver, "auto");
  const Parsed chosen = parse({{"ROCI_LINK", "netdev:eth0/af_packet"}});
  EXPECT_EQ(chosen.config.link.name, "eth0");
  EXPECT_EQ(chosen.config.link.driver, "af_packet");
  EXPECT_EQ(
      error_of("ROCI_LINK", "netdev:eth0/af_xpd"),
      "ROCI_LINK=netdev:eth0/af_xpd: no driver for interfaces is called \"af_xpd\", nearest: \"af_xdp\"; there are "
      "auto, af_xdp, af_xdp_generic, af_packet");
  EXPECT_NE(error_of("ROCI_LINK", "netdev:eth0/"), "");
  EXPECT_NE(error_of("ROCI_LINK", "netdev:/af_xdp"), "");
}

TEST(LiveConfig, parse_live_config__a_link_without_a_name_is_the_default_one) {
  EXPECT_EQ(parse({{"ROCI_LINK", "cable"}}).config.link.name, "default");
}

TEST(LiveConfig, parse_live_config__an_error_names_variable_value_and_nearest) {
  EXPECT_EQ(error_of("ROCI_LINK", "cabel:x"),
            "ROCI_LINK=cabel:x: no kind of link is called \"cabel\", nearest: \"cable\"; there are cable:NAME, "
            "netdev:INTERFACE, vdev:DEVICE and pci:ADDRESS");
}

TEST(LiveConfig, parse_live_config__refuses_names_that_could_leave_a_folder) {
  for (const char* link : {"cable:..", "cable:.x", "cable:a/b", "cable:a b", "cable:", "cable:\xc3\xa4"})
    EXPECT_NE(error_of("ROCI_LINK", link), "") << link;
  EXPECT_EQ(error_of("ROCI_LINK", "cable:" + std::string(63, 'a')), "");
  EXPECT_NE(error_of("ROCI_LINK", "cable:" + std::string(64, 'a')), "");
}

TEST(LiveConfig, parse_live_config__refuses_what_is_not_an_address_of_one_host) {
  for (const char* ip : {"198.18.0.1", "198.18.0.1/", "198.18.0.1/0", "198.18.0.1/33", "198.18.0.1/+8", "198.18.0/24",
                         "198.18.0.1/24,", ",", "fd00::1/129", "fd00::g/64", "224.0.0.1/4", "ff02::1/64", "::/64",
                         "0.0.0.0/8", "::ffff:198.18.0.1/120", "198.18.0.1/24 ", "198.18.0.1/24,198.18.0.1/16"})
    EXPECT_NE(error_of("ROCI_IP", ip), "") << ip;
}

TEST(LiveConfig, parse_live_config__mtu_is_one_of_five) {
  for (const char* mtu : {"256", "512", "1024", "2048", "4096"}) EXPECT_EQ(error_of("ROCI_MTU", mtu), "");
  for (const char* mtu : {"0", "128", "1500", "8192", "-256", "256x", "99999999999999999999"})
    EXPECT_NE(error_of("ROCI_MTU", mtu), "") << mtu;
}

/// The cores that this process may run on.
std::vector<std::uint32_t> allowed_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  EXPECT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  std::vector<std::uint32_t> cores;
  for (std::uint32_t i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(i, &allowed)) cores.push_back(i);
  return cores;
}

TEST(LiveConfig, parse_live_config__one_worker_for_each_core) {
  const std::vector<std::uint32_t> cores = allowed_cores();
  EXPECT_EQ(parse({}).config.workers(), 1u);
  const Parsed one = parse({{"ROCI_CORES", std::to_string(cores.back())}});
  EXPECT_EQ(one.config.cores, std::vector{cores.back()});
  EXPECT_EQ(one.config.workers(), 1u);
  if (cores.size() < 2) GTEST_SKIP() << "the process may run on one core only";
  const Parsed two = parse({{"ROCI_CORES", std::to_string(cores[1]) + "," + std::to_string(cores[0])}});
  EXPECT_EQ(two.error, "");
  EXPECT_EQ(two.config.cores, (std::vector{cores[1], cores[0]}));
  EXPECT_EQ(two.config.workers(), 2u);
}

TEST(LiveConfig, parse_live_config__refuses_cores_that_are_none_or_twice_or_not_allowed) {
  const std::string core = std::to_string(allowed_cores().front());
  for (const std::string& list : {std::string("x"), std::string("-1"), core + ",", "," + core, core + " ", core + "-"})
    EXPECT_NE(error_of("ROCI_CORES", list).find("is not the number of a core"), std::string::npos) << list;
  EXPECT_EQ(error_of("ROCI_CORES", core + "," + core),
            "ROCI_CORES=" + core + "," + core + ": core " + core + " is there twice");
  EXPECT_EQ(error_of("ROCI_CORES", "4000"), "ROCI_CORES=4000: the process cannot run on core 4000");
}

TEST(LiveConfig, parse_live_config__cores_are_not_those_of_the_programs_threads) {
  const std::vector<std::uint32_t> cores = allowed_cores();
  if (cores.size() < 2) GTEST_SKIP() << "the process may run on one core only";
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  cpu_set_t first;
  CPU_ZERO(&first);
  CPU_SET(cores[0], &first);
  ASSERT_EQ(sched_setaffinity(0, sizeof first, &first), 0);
  EXPECT_EQ(error_of("ROCI_CORES", std::to_string(cores[1])), "");
  EXPECT_EQ(allowed_cores(), std::vector{cores[0]}) << "as it was before";
  EXPECT_EQ(sched_setaffinity(0, sizeof before, &before), 0);
}

TEST(LiveConfig, parse_live_config__refuses_cores_for_the_calls_of_the_program) {
  const std::string core = std::to_string(allowed_cores().front());
  EXPECT_NE(parse({{"ROCI_CORES", core}, {"ROCI_PROGRESS", "inline"}}).error, "");
  EXPECT_EQ(parse({{"ROCI_CORES", core}, {"ROCI_PROGRESS", "thread"}}).error, "");
}

TEST(LiveConfig, check_together__several_cores_are_for_a_cable) {
  LiveConfig config;
  config.cores = {0, 1};
  EXPECT_EQ(check_together(config), "");
  config.link.kind = "netdev";
  EXPECT_EQ(check_together(config), "several cores need a cable: a link of kind netdev has one queue, for one core");
  config.cores = {1};
  EXPECT_EQ(check_together(config), "");
}

TEST(LiveConfig, nearest_name__a_slip_is_found_and_a_stranger_is_not) {
  constexpr std::string_view kNames[] = {"link", "mtu", "progress"};
  EXPECT_EQ(nearest_name("lnik", kNames), "link");
  EXPECT_EQ(nearest_name("progres", kNames), "progress");
  EXPECT_EQ(nearest_name("mtu", kNames), "mtu");
  EXPECT_EQ(nearest_name("completely", kNames), "");
  EXPECT_EQ(nearest_name("", kNames), "");
}

}  // namespace
}  // namespace roci
