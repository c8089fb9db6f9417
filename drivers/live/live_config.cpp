#include "drivers/live/live_config.h"

#include <arpa/inet.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <optional>

#include "cc/registry.h"
#include "drivers/faults/fault_script.h"
#include "stack/egress/settings_text.h"
#include "stack/queues/completion_queue.h"

namespace roci {
namespace {

constexpr std::size_t kLongestName = 63;       // as a device's name in verbs, which has 64 bytes with its end
constexpr std::size_t kLongestInterface = 15;  // IFNAMSIZ with its end
constexpr std::array<std::string_view, 3> kProgressModes = {"auto", "inline", "thread"};
constexpr std::array<std::uint32_t, 5> kPathMtus = {256, 512, 1024, 2048, 4096};

std::string quoted(std::string_view text) { return '"' + std::string(text) + '"'; }

std::string listed(std::span<const std::string_view> names) {
  std::string out;
  for (std::string_view name : names) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Names become parts of paths and of socket addresses.
std::string check_name(std::string_view name) {
  if (name.empty()) return "the name is empty";
  if (name.size() > kLongestName) return "the name is longer than " + std::to_string(kLongestName) + " bytes";
  for (char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!plain && c != '_' && c != '-' && c != '.') return "a name has letters, digits, '_', '-' and '.' only";
  }
  if (name.front() == '.') return "a name does not start with '.'";
  return {};
}

/// As the kernel allows, which checks the rest.
std::string check_interface(std::string_view name) {
  if (name.empty() || name == "default") return "netdev: needs the name of an interface, as in netdev:eth0";
  if (name.size() > kLongestInterface) return "an interface's name has at most 15 bytes";
  if (name.find_first_of("/, =") != std::string_view::npos) return "no interface is called " + quoted(name);
  return {};
}

constexpr std::array<std::string_view, 4> kNetdevDrivers = {"auto", "af_xdp", "af_xdp_generic", "af_packet"};

/// INTERFACE, or INTERFACE/DRIVER.
std::string apply_netdev(std::string_view text, LinkName* link) {
  const std::size_t slash = text.find('/');
  link->name = text.substr(0, slash);
  if (std::string wrong = check_interface(link->name); !wrong.empty() || slash == std::string_view::npos) return wrong;
  link->driver = text.substr(slash + 1);
  if (std::find(kNetdevDrivers.begin(), kNetdevDrivers.end(), link->driver) != kNetdevDrivers.end()) return {};
  return "no driver for interfaces is called " + quoted(link->driver) + nearest_hint(link->driver, kNetdevDrivers) +
         "; there are " + listed(kNetdevDrivers);
}

std::string apply_name(std::string_view text, LinkName* link) {
  link->name = text;
  return check_name(text);
}

/// DPDK checks the rest.
std::string apply_vdev(std::string_view text, LinkName* link) {
  link->name = text;
  if (text.starts_with("net_")) return {};
  return "vdev: needs a device as DPDK writes it, as in vdev:net_tap0,iface=tap0";
}

/// DOMAIN:BUS:DEVICE.FUNCTION, the domain optional.
std::string apply_pci(std::string_view text, LinkName* link) {
  link->name = text;
  std::string form;
  for (const char c : text) form += std::isxdigit(static_cast<unsigned char>(c)) != 0 ? 'x' : c;
  if (form == "xxxx:xx:xx.x" || form == "xx:xx.x") return {};
  return "pci: needs the address of a device, as in pci:0000:03:00.0";
}

struct LinkKind {
  std::string_view name;
  std::string (*apply)(std::string_view text, LinkName* link);
};
constexpr auto kLinkKinds = std::to_array<LinkKind>(
    {{"cable", apply_name}, {"netdev", apply_netdev}, {"vdev", apply_vdev}, {"pci", apply_pci}});

std::string apply_link(std::string_view value, LiveConfig* config) {
  const std::size_t colon = value.find(':');
  const std::string_view kind = value.substr(0, colon);
  const auto found =
      std::find_if(kLinkKinds.begin(), kLinkKinds.end(), [&](const LinkKind& entry) { return entry.name == kind; });
  if (found == kLinkKinds.end()) {
    std::array<std::string_view, kLinkKinds.size()> names;
    std::transform(kLinkKinds.begin(), kLinkKinds.end(), names.begin(),
                   [](const LinkKind& entry) { return entry.name; });
    return "no kind of link is called " + quoted(kind) + nearest_hint(kind, names) +
           "; there are cable:NAME, netdev:INTERFACE, vdev:DEVICE and pci:ADDRESS";
  }
  LinkName link;
  link.kind = kind;
  const std::string_view name = colon == std::string_view::npos ? std::string_view("default") : value.substr(colon + 1);
  if (std::string wrong = found->apply(name, &link); !wrong.empty()) return wrong;
  config->link = link;
  return {};
}

std::string apply_device_name(std::string_view value, LiveConfig* config) {
  if (std::string wrong = check_name(value); !wrong.empty()) return wrong;
  config->device_name = value;
  return {};
}

std::string parse_prefix(std::string_view text, IpPrefix* prefix) {
  const std::string form = quoted(text) + " is not of the form A/LEN, such as 198.18.0.1/24 or fd00::1/64";
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return form;
  const std::string address(text.substr(0, slash));
  const auto bits = parse_number<std::uint8_t>(text.substr(slash + 1));
  in_addr v4{};
  in6_addr v6{};
  const bool is_v4 = inet_pton(AF_INET, address.c_str(), &v4) == 1;
  if (!is_v4 && inet_pton(AF_INET6, address.c_str(), &v6) != 1) return form;
  if (!bits || *bits < 1 || *bits > (is_v4 ? 32 : 128))
    return quoted(text) + " has a prefix length out of 1 to " + (is_v4 ? "32" : "128");
  if (is_v4)
    prefix->address = IpAddress::v4(ntohl(v4.s_addr));
  else
    std::copy(std::begin(v6.s6_addr), std::end(v6.s6_addr), prefix->address.bytes.begin());
  prefix->prefix_bits = *bits;
  if (!is_v4 && prefix->address.is_v4()) return quoted(text) + " is an IPv4 address: write it as one";
  const bool multicast = is_v4 ? (ntohl(v4.s_addr) >> 28) == 0xe : v6.s6_addr[0] == 0xff;
  const bool unspecified = prefix->address.is_unspecified() || (is_v4 && v4.s_addr == 0);
  if (multicast || unspecified) return quoted(text) + " is not the address of one host";
  return {};
}

std::string apply_addresses(std::string_view value, LiveConfig* config) {
  std::vector<IpPrefix> addresses;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view text = rest.substr(0, comma);
    IpPrefix prefix;
    if (std::string wrong = parse_prefix(text, &prefix); !wrong.empty()) return wrong;
    for (const IpPrefix& earlier : addresses)
      if (earlier.address == prefix.address) return quoted(text) + " has an address that is already there";
    addresses.push_back(prefix);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  config->addresses = std::move(addresses);
  return {};
}

std::string apply_host(std::string_view value, LiveConfig* config) {
  if (std::string wrong = check_name(value); !wrong.empty()) return wrong;
  config->host = value;
  return {};
}

std::string apply_mtu(std::string_view value, LiveConfig* config) {
  const auto bytes = parse_number<std::uint32_t>(value);
  if (bytes && std::find(kPathMtus.begin(), kPathMtus.end(), *bytes) != kPathMtus.end()) {
    config->mtu_bytes = *bytes;
    return {};
  }
  std::string wrong = "not a path MTU of RoCE (256, 512, 1024, 2048 or 4096 bytes)";
  if (!bytes) return wrong;
  const auto distance = [&](std::uint32_t mtu) { return mtu > *bytes ? mtu - *bytes : *bytes - mtu; };
  const auto nearest = std::min_element(kPathMtus.begin(), kPathMtus.end(),
                                        [&](std::uint32_t a, std::uint32_t b) { return distance(a) < distance(b); });
  return wrong + ", nearest: " + std::to_string(*nearest);
}

std::string apply_progress(std::string_view value, LiveConfig* config) {
  if (std::find(kProgressModes.begin(), kProgressModes.end(), value) == kProgressModes.end())
    return "not one of " + listed(kProgressModes) + nearest_hint(value, kProgressModes);
  config->progress = value;
  return {};
}

/// Tried, since nothing else tells: a container may keep the process from some of the machine's cores, and a mask that
/// it was started with (taskset, mpirun) is for its own threads.
bool can_run_on(std::uint32_t core) {
  cpu_set_t before;
  if (sched_getaffinity(0, sizeof before, &before) != 0) return true;
  if (core >= CPU_SETSIZE) return false;
  cpu_set_t only;
  CPU_ZERO(&only);
  CPU_SET(core, &only);
  const bool can = sched_setaffinity(0, sizeof only, &only) == 0;
  if (can) sched_setaffinity(0, sizeof before, &before);
  return can;
}

std::string apply_cores(std::string_view value, LiveConfig* config) {
  std::vector<std::uint32_t> cores;
  for (std::string_view rest = value;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view text = rest.substr(0, comma);
    const auto core = parse_number<std::uint32_t>(text);
    if (!core) return quoted(text) + " is not the number of a core";
    if (std::find(cores.begin(), cores.end(), *core) != cores.end())
      return "core " + std::to_string(*core) + " is there twice";
    if (!can_run_on(*core)) return "the process cannot run on core " + std::to_string(*core);
    cores.push_back(*core);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (cores.size() > kMaxWorkers) return "more than " + std::to_string(kMaxWorkers) + " cores";
  config->cores = std::move(cores);
  return {};
}

std::string apply_capture(std::string_view value, LiveConfig* config) {
  if (value.ends_with('/')) return "a folder, not a file";
  config->capture = value;
  return {};
}

/// The script is read here to be refused early; whoever opens the link reads it again.
std::string apply_faults(std::string_view value, LiveConfig* config) {
  config->faults = value;
  FaultScript script;
  std::string error;
  return read_fault_script(config->faults, &script, &error) ? std::string() : error;
}

std::string apply_cc(std::string_view value, LiveConfig* config) {
  Parsed<CcSpec> spec = parse_cc(value);
  if (spec) config->cc = std::move(spec.value);
  return spec.wrong;
}

template <std::size_t index>
std::string apply_egress(std::string_view value, LiveConfig* config) {
  return egress::setting_texts()[index].apply(value, &config->egress);
}

template <std::size_t index>
Setting egress_setting(const char* variable) {
  const egress::SettingText& text = egress::setting_texts()[index];
  return {text.name, variable, text.form, text.description, false, apply_egress<index>};
}

const std::vector<Setting>& all_settings() {
  static const std::vector<Setting> all{
      {"link", "ROCI_LINK", "LINK",
       "what the device is joined to: cable:NAME (default cable:default) or netdev:INTERFACE", false, apply_link},
      {"name", "ROCI_NAME", "DEVICE", "name of the device (default roci0)", false, apply_device_name},
      {"ip", "ROCI_IP", "A/LEN", "an address of the device; may be repeated (default: the link's choice)", true,
       apply_addresses},
      {"host", "ROCI_HOST", "NAME", "the host that the process is part of: one MAC, one address", false, apply_host},
      {"mtu", "ROCI_MTU", "BYTES", "path MTU of the port: 256, 512, 1024, 2048 or 4096 (default 4096)", false,
       apply_mtu},
      {"progress", "ROCI_PROGRESS", "MODE",
       "who does the work: inline (calls of the program), thread, or auto (default)", false, apply_progress},
      {"cores", "ROCI_CORES", "LIST", "cores that do nothing but the work: a worker on each, as in 2,3", true,
       apply_cores},
      {"capture", "ROCI_CAPTURE", "FILE", "write what is sent and received to a pcapng file", false, apply_capture},
      {"faults", "ROCI_FAULTS", "FILE", "a script of what is to go wrong on the link", false, apply_faults},
      {"cc", "ROCI_CC", "NAME[,K=V...]", "congestion control: none (default), fixed or dcqcn, with its parameters",
       false, apply_cc},
      egress_setting<0>("ROCI_PFC"),
      egress_setting<1>("ROCI_TRUST"),
      egress_setting<2>("ROCI_PRIO_TC"),
      egress_setting<3>("ROCI_TC_BW"),
      egress_setting<4>("ROCI_CNP_DSCP"),
      egress_setting<5>("ROCI_DSCP"),
  };
  return all;
}

}  // namespace

std::span<const Setting> settings() { return all_settings(); }

std::string check_together(const LiveConfig& config) {
  if (!config.cores.empty() && config.progress == "inline")
    return "progress inline and cores exclude each other: the program's calls do the work, or cores of its own";
  if (config.workers() > 1 && config.link.kind != "cable")
    return "several cores need a cable: a link of kind " + config.link.kind + " has one queue, for one core";
  return {};
}

bool parse_live_config(const Environment& environment, LiveConfig* config, std::string* error) {
  for (const Setting& setting : settings()) {
    const char* value = environment(setting.variable);
    if (value == nullptr || *value == '\0') continue;
    if (std::string wrong = setting.apply(value, config); !wrong.empty()) {
      *error = std::string(setting.variable) + "=" + value + ": " + wrong;
      return false;
    }
  }
  *error = check_together(*config);
  return error->empty();
}

bool read_live_config(LiveConfig* config, std::string* error) {
  return parse_live_config([](const char* name) -> const char* { return std::getenv(name); }, config, error);
}

}  // namespace roci
