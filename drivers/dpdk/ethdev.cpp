#include "drivers/dpdk/ethdev.h"

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>

#include <cerrno>
#include <cstring>

namespace roci::dpdk {
namespace {

constexpr std::uint16_t kQueueFrames = 1024;
constexpr std::uint32_t kPoolFrames = 8191;
constexpr std::uint32_t kCacheFrames = 256;

bool fail(int code, const std::string& what, std::string* error) {
  *error = what + ": " + std::strerror(code);
  errno = code;
  return false;
}

/// As rte_pktmbuf_pool_create() makes it, but with no padding between elements, which are a page each.
rte_mempool* make_page_pool(const std::string& name) {
  constexpr std::uint32_t kElementBytes = 4096 - RTE_CACHE_LINE_SIZE;  // less the mempool's own header
  rte_mempool* pool =
      rte_mempool_create_empty(name.c_str(), kPoolFrames, kElementBytes, 0, sizeof(rte_pktmbuf_pool_private),
                               SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);
  if (pool == nullptr) return nullptr;
  rte_pktmbuf_pool_private sizes{};
  sizes.mbuf_data_room_size = kElementBytes - sizeof(rte_mbuf);
  const int failed = rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), nullptr);
  if (failed == 0) rte_pktmbuf_pool_init(pool, &sizes);
  if (failed != 0 || rte_mempool_populate_default(pool) < 0) {
    rte_mempool_free(pool);
    rte_errno = ENOMEM;
    return nullptr;
  }
  rte_mempool_obj_iter(pool, rte_pktmbuf_init, nullptr);
  return pool;
}

}  // namespace

std::unique_ptr<Ethdev> Ethdev::open(const EthdevConfig& config, std::string* error) {
  std::unique_ptr<Ethdev> made(new Ethdev);
  if (!made->probe(config, error) || !made->make_pool(config, error) || !made->start(error)) return nullptr;
  return made;
}

Ethdev::~Ethdev() {
  if (started_) rte_eth_dev_stop(id_);
  if (probed_) {
    rte_eth_dev_close(id_);
    rte_eal_hotplug_remove(bus_.c_str(), device_.c_str());
  }
  if (cache_ != nullptr) {
    rte_mempool_cache_flush(cache_, pool_);
    rte_mempool_cache_free(cache_);
  }
  rte_mempool_free(pool_);
}

bool Ethdev::probe(const EthdevConfig& config, std::string* error) {
  bus_ = config.bus;
  device_ = config.device;
  const std::string what = "device " + device_;
  const int failed = rte_eal_hotplug_add(bus_.c_str(), device_.c_str(), config.arguments.c_str());
  if (failed != 0) return fail(-failed, what, error);
  probed_ = rte_eth_dev_get_port_by_name(device_.c_str(), &id_) == 0;
  if (!probed_) return fail(ENODEV, what + " is no network port", error);
  return true;
}

bool Ethdev::make_pool(const EthdevConfig& config, std::string* error) {
  const std::string name = "roci" + std::to_string(id_);
  pool_ = config.one_page_each
              ? make_page_pool(name)
              : rte_pktmbuf_pool_create(name.c_str(), kPoolFrames, 0, 0,
                                        static_cast<std::uint16_t>(config.buffer_bytes), SOCKET_ID_ANY);
  if (pool_ == nullptr) return fail(rte_errno, "memory for frames", error);
  cache_ = rte_mempool_cache_create(kCacheFrames, SOCKET_ID_ANY);
  if (cache_ == nullptr) return fail(rte_errno, "memory for frames", error);
  return true;
}

bool Ethdev::start(std::string* error) {
  rte_eth_conf configuration{};
  int failed = rte_eth_dev_configure(id_, 1, 1, &configuration);
  std::uint16_t rx_frames = kQueueFrames;
  std::uint16_t tx_frames = kQueueFrames;
  if (failed == 0) failed = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_frames, &tx_frames);
  if (failed == 0) failed = rte_eth_rx_queue_setup(id_, 0, rx_frames, SOCKET_ID_ANY, nullptr, pool_);
  if (failed == 0) failed = rte_eth_tx_queue_setup(id_, 0, tx_frames, SOCKET_ID_ANY, nullptr);
  if (failed == 0) failed = rte_eth_dev_start(id_);
  if (failed != 0) return fail(-failed, "starting " + device_, error);
  started_ = true;
  return true;
}

MacAddress Ethdev::mac() const {
  rte_ether_addr address{};
  rte_eth_macaddr_get(id_, &address);
  MacAddress mac;
  std::memcpy(mac.bytes.data(), address.addr_bytes, mac.bytes.size());
  return mac;
}

std::uint32_t Ethdev::mtu_bytes() const {
  std::uint16_t mtu = 0;
  return rte_eth_dev_get_mtu(id_, &mtu) == 0 ? mtu : 1500;
}

bool Ethdev::allocate(rte_mbuf** out, std::uint32_t count) {
  if (rte_mempool_generic_get(pool_, reinterpret_cast<void**>(out), count, cache_) != 0) return false;
  for (std::uint32_t i = 0; i < count; ++i) rte_pktmbuf_reset(out[i]);
  return true;
}

void Ethdev::free(rte_mbuf** mbufs, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) rte_pktmbuf_free(mbufs[i]);
}

}  // namespace roci::dpdk
