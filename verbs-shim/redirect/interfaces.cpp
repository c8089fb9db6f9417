// Preloaded into the client: an interface that has the device's addresses, among those that the kernel has. Programs
// that use librdmacm find a device by binding to each address that getifaddrs() lists; others see no such interface,
// since they would take it for one that carries TCP.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <new>
#include <string>

#include "drivers/live/device_view.h"
#include "verbs-shim/redirect/device.h"

#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))
#define ROCI_NEXT(name) (reinterpret_cast<decltype(&(name))>(dlsym(RTLD_NEXT, #name)))

namespace {

using roci::DeviceView;
using roci::IpAddress;
using roci::redirect::kernel_index;

/// Where the kernel's own do not come: it counts from 1.
constexpr unsigned kIndex = 0x726f'6369;

union SocketAddress {
  sockaddr any;
  sockaddr_in v4;
  sockaddr_in6 v6;
  sockaddr_ll link;
};

/// One entry with all that it points to. libc's lists are made in another way, by which ours are known.
struct Entry {
  ifaddrs is{};
  char name[IF_NAMESIZE]{};
  SocketAddress address{};
  SocketAddress netmask{};
  SocketAddress broadcast{};
};

bool is_ours(const ifaddrs* entry) { return entry->ifa_name == reinterpret_cast<const char*>(entry) + sizeof(ifaddrs); }

/// Unless the kernel has an interface of that name, whose addresses then count.
bool is_shown(const char* name) { return roci::redirect::interface_name() == name && kernel_index(name) == 0; }

void set_name(Entry& entry, const std::string& name, bool link_up) {
  entry.is.ifa_name = entry.name;
  name.copy(entry.name, sizeof entry.name - 1);
  entry.is.ifa_flags = IFF_UP | IFF_BROADCAST | IFF_MULTICAST | (link_up ? IFF_RUNNING : 0);
  entry.is.ifa_addr = &entry.address.any;
}

void set_link(Entry& entry, const DeviceView& view) {
  sockaddr_ll& own = entry.address.link;
  own.sll_family = AF_PACKET;
  own.sll_ifindex = static_cast<int>(kIndex);
  own.sll_hatype = ARPHRD_ETHER;
  own.sll_halen = view.mac.bytes.size();
  std::copy(view.mac.bytes.begin(), view.mac.bytes.end(), own.sll_addr);
  entry.broadcast = entry.address;
  std::fill_n(entry.broadcast.link.sll_addr, own.sll_halen, 0xff);
  entry.is.ifa_broadaddr = &entry.broadcast.any;
}

void set_v4(Entry& entry, const IpAddress& address, unsigned prefix_bits) {
  const std::uint32_t mask = prefix_bits == 0 ? 0 : ~std::uint32_t{0} << (32 - prefix_bits);
  const std::uint32_t own = address.v4_host_order();
  const auto set = [](SocketAddress& out, std::uint32_t host_order) {
    out.v4.sin_family = AF_INET;
    out.v4.sin_addr.s_addr = htonl(host_order);
  };
  set(entry.address, own);
  set(entry.netmask, mask);
  set(entry.broadcast, own | ~mask);
  entry.is.ifa_netmask = &entry.netmask.any;
  entry.is.ifa_broadaddr = &entry.broadcast.any;
}

void set_v6(Entry& entry, const IpAddress& address, unsigned prefix_bits) {
  entry.address.v6.sin6_family = entry.netmask.v6.sin6_family = AF_INET6;
  std::copy(address.bytes.begin(), address.bytes.end(), entry.address.v6.sin6_addr.s6_addr);
  if (IN6_IS_ADDR_LINKLOCAL(&entry.address.v6.sin6_addr)) entry.address.v6.sin6_scope_id = kIndex;
  for (unsigned bit = 0; bit < prefix_bits; ++bit)
    entry.netmask.v6.sin6_addr.s6_addr[bit / 8] |= static_cast<std::uint8_t>(0x80 >> bit % 8);
  entry.is.ifa_netmask = &entry.netmask.any;
}

/// The link and then each address, in one block. Null if there is no room.
ifaddrs* list_of(const DeviceView& view, const std::string& name) {
  auto* all = new (std::nothrow) Entry[1 + view.rows];
  if (all == nullptr) return nullptr;
  set_link(all[0], view);
  unsigned used = 1;
  for (std::uint32_t i = 0; i < view.rows; ++i) {
    const IpAddress& address = view.gids[i];
    if (address.is_unspecified()) continue;
    Entry& entry = all[used++];
    address.is_v4() ? set_v4(entry, address, view.prefix_bits[i]) : set_v6(entry, address, view.prefix_bits[i]);
  }
  for (unsigned i = 0; i < used; ++i) {
    set_name(all[i], name, view.link_up);
    all[i].is.ifa_next = i + 1 < used ? &all[i + 1].is : nullptr;
  }
  return &all[0].is;
}

}  // namespace

ROCI_EXPORT int getifaddrs(ifaddrs** out) noexcept {
  static const auto next = ROCI_NEXT(getifaddrs);
  const int error = errno;
  const std::string name = roci::redirect::interface_name();
  DeviceView view;
  const bool shown = is_shown(name.c_str()) && roci::redirect::shows_addresses() && roci::redirect::read_device(&view);
  errno = error;
  if (const int result = next(out); result != 0 || !shown) return result;
  while (*out != nullptr) out = &(*out)->ifa_next;
  *out = list_of(view, name);
  return 0;
}

ROCI_EXPORT void freeifaddrs(ifaddrs* list) noexcept {
  static const auto next = ROCI_NEXT(freeifaddrs);
  ifaddrs** at = &list;
  while (*at != nullptr && !is_ours(*at)) at = &(*at)->ifa_next;
  delete[] reinterpret_cast<Entry*>(*at);
  *at = nullptr;
  next(list);
}

ROCI_EXPORT unsigned if_nametoindex(const char* name) noexcept {
  const unsigned index = kernel_index(name);
  const int error = errno;
  if (index != 0 || !is_shown(name) || !roci::redirect::shows_addresses()) {
    errno = error;
    return index;
  }
  return kIndex;
}

ROCI_EXPORT char* if_indextoname(unsigned index, char* out) noexcept {
  static const auto next = ROCI_NEXT(if_indextoname);
  const std::string name = roci::redirect::interface_name();
  if (index != kIndex || !is_shown(name.c_str()) || !roci::redirect::shows_addresses()) return next(index, out);
  out[name.copy(out, IF_NAMESIZE - 1)] = '\0';
  return out;
}
