// Two network namespaces of this process's own with a veth pair between them; removed with this object.
#pragma once

#include <memory>
#include <string>

#include "tools/roci/bench/process.h"

namespace roci::bench {

class VethPair {
 public:
  /// Throws Absence with the reason where that is not allowed.
  explicit VethPair(unsigned mtu_bytes);
  ~VethPair();
  VethPair(const VethPair&) = delete;
  VethPair& operator=(const VethPair&) = delete;

  /// What stands before a command that is to run at one end.
  Command at_server() const { return {"ip", "netns", "exec", server_}; }
  Command at_client() const { return {"ip", "netns", "exec", client_}; }

  static constexpr const char* kInterface = "veth0";
  static constexpr const char* kServerAddress = "198.18.240.2";
  static constexpr const char* kClientAddress = "198.18.240.1";

 private:
  void make(unsigned mtu_bytes) const;
  void remove() const noexcept;

  const std::string server_;
  const std::string client_;
};

/// Made when first needed, and shared by all who need it.
class LazyVethPair {
 public:
  explicit LazyVethPair(unsigned mtu_bytes) : mtu_bytes_(mtu_bytes) {}
  VethPair& get() {
    if (pair_ == nullptr) pair_ = std::make_unique<VethPair>(mtu_bytes_);
    return *pair_;
  }

 private:
  const unsigned mtu_bytes_;
  std::unique_ptr<VethPair> pair_;
};

}  // namespace roci::bench
