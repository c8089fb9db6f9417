// The communication manager behind QP1 of a port.
#pragma once

#include "stack/cm/connection_manager.h"
#include "stack/cm/mad_transport.h"
#include "stack/engine/gsi.h"

namespace roci::cm {

/// Owner: whoever holds the worker's baton, as the manager.
class GsiTransport : public MadTransport, public MadReceiver {
 public:
  explicit GsiTransport(Gsi& gsi) : gsi_(gsi) {}
  ~GsiTransport() override { gsi_.set_receiver(nullptr); }
  GsiTransport(const GsiTransport&) = delete;
  GsiTransport& operator=(const GsiTransport&) = delete;

  /// From now on the manager gets what arrives.
  void serve(ConnectionManager& manager) {
    manager_ = &manager;
    gsi_.set_receiver(this);
  }

  void send(const MadPath& path, const Mad& message) override {
    gsi_.send(path.local, path.remote, block_of(path), message);
  }
  std::uint64_t incarnation(const MadPath& path) override { return gsi_.incarnation(path.remote, block_of(path)); }
  bool pass_on(const MadPath& path, const Mad& message) override {
    return gsi_.pass_on(path.local, path.remote, message);
  }
  void on_mad(const IpAddress& local, const IpAddress& remote, const Mad& message, Instant now) override {
    manager_->on_mad({.local = local, .remote = remote}, message, now);
  }
  Instant next_deadline() const override { return manager_->next_deadline(); }
  void on_deadline(Instant now) override { manager_->on_deadline(now); }

 private:
  static std::uint32_t block_of(const MadPath& path) { return path.remote_id >> kIdBlockShift; }

  Gsi& gsi_;
  ConnectionManager* manager_ = nullptr;
};

}  // namespace roci::cm
