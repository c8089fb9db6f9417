#include "drivers/dpdk/ethdev.h"

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_log.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>
#include <signal.h>

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

/// Drivers write to sockets whose other end may be gone, in threads of the application. While this exists the thread
/// gets no SIGPIPE, nor one later for what happened meanwhile.
class NoPipeSignal {
 public:
  NoPipeSignal() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  }
  ~NoPipeSignal() {
    constexpr timespec kNoWait{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &kNoWait);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoPipeSignal(const NoPipeSignal&) = delete;
  NoPipeSignal& operator=(const NoPipeSignal&) = delete;

 private:
  sigset_t pipe_;
  sigset_t before_;
  bool was_pending_ = false;
};

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
  const NoPipeSignal quiet;
  std::unique_ptr<Ethdev> made(new Ethdev);
  if (!made->probe(config, error) || !made->make_pool(config, error) || !made->start(error)) return nullptr;
  return made;
}

Ethdev::~Ethdev() {
  const NoPipeSignal quiet;
  // Drivers complain that the other end has gone before.
  rte_log_set_global_level(RTE_LOG_CRIT);
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

std::string Ethdev::driver() const {
  rte_eth_dev_info info{};
  return rte_eth_dev_info_get(id_, &info) == 0 ? info.driver_name : device_;
}

std::uint32_t Ethdev::set_mtu(std::uint32_t wanted_bytes) {
  // Drivers that move memory know of no MTU: a frame's buffer is their only limit.
  if (rte_eth_dev_set_mtu(id_, static_cast<std::uint16_t>(wanted_bytes)) == -ENOTSUP) return wanted_bytes;
  std::uint16_t mtu = 0;
  return rte_eth_dev_get_mtu(id_, &mtu) == 0 ? mtu : RTE_ETHER_MTU;
}

void Ethdev::listen(bool all) {
  rte_eth_allmulticast_enable(id_);
  if (all) rte_eth_promiscuous_enable(id_);
}

Ethdev::Link Ethdev::link() const {
  rte_eth_link link{};
  if (rte_eth_link_get_nowait(id_, &link) != 0) return {};
  constexpr std::uint64_t kMega = 1'000'000;
  const bool is_known = link.link_speed != RTE_ETH_SPEED_NUM_UNKNOWN;
  return {.is_up = link.link_status == RTE_ETH_LINK_UP, .speed_bps = is_known ? link.link_speed * kMega : 0};
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
