// Two network namespaces of this process's own with a veth pair between them, MTU 9000; removed with this object.
#pragma once

#include <string>

#include "tools/roci/bench/process.h"

namespace roci::bench {

class VethPair {
 public:
  /// Throws Absence with the reason where that is not allowed.
  VethPair();
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
  void make() const;
  void remove() const noexcept;

  const std::string server_;
  const std::string client_;
};

}  // namespace roci::bench
