// One ethdev port with one pair of queues, and the pool that its frames live in.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stack/wire/address.h"

struct rte_mbuf;
struct rte_mempool;
struct rte_mempool_cache;

namespace roci::dpdk {

struct EthdevConfig {
  std::string bus;                 ///< vdev or pci
  std::string device;              ///< its name on the bus
  std::string arguments;           ///< of the driver
  std::uint32_t buffer_bytes = 0;  ///< data room of an mbuf, headroom included
  bool one_page_each = false;      ///< instead: an mbuf with its data is one page (AF_XDP)
};

/// Owner: control to open and close, the worker in between.
class Ethdev {
 public:
  /// Null with errno and `*error` on failure.
  static std::unique_ptr<Ethdev> open(const EthdevConfig& config, std::string* error);
  ~Ethdev();
  Ethdev(const Ethdev&) = delete;
  Ethdev& operator=(const Ethdev&) = delete;

  std::uint16_t id() const { return id_; }
  MacAddress mac() const;
  std::string driver() const;
  /// Sets the largest Ethernet payload, in bytes, and returns what it then is.
  std::uint32_t set_mtu(std::uint32_t wanted_bytes);
  /// Takes multicast frames, too, and those for other MAC addresses if `all`; as far as the driver can.
  void listen(bool all);
  struct Link {
    bool is_up = false;
    std::uint64_t speed_bps = 0;  ///< 0: not known
  };
  Link link() const;

  /// `count` empty mbufs, or none.
  bool allocate(rte_mbuf** out, std::uint32_t count);
  void free(rte_mbuf** mbufs, std::uint32_t count);

 private:
  Ethdev() = default;
  bool probe(const EthdevConfig& config, std::string* error);
  bool make_pool(const EthdevConfig& config, std::string* error);
  bool start(std::string* error);

  std::string bus_;
  std::string device_;
  bool probed_ = false;
  std::uint16_t id_ = 0;
  bool started_ = false;
  rte_mempool* pool_ = nullptr;
  rte_mempool_cache* cache_ = nullptr;  ///< threads that DPDK does not know have none of their own
};

}  // namespace roci::dpdk
