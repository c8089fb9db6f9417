// A port whose frames are also written to a file: what `roci run --capture FILE` puts in front of the link.
#pragma once

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "drivers/capture/frame_ring.h"
#include "drivers/capture/pcapng_writer.h"
#include "stack/engine/port.h"

namespace roci {

/// The worker copies each frame into a ring; a thread of ours writes the file. A frame that finds the ring full is
/// counted, in the file too, and not kept.
class CapturePort : public PortDecorator {
 public:
  /// Null with `*error` if the file cannot be opened. The name in use goes to stderr if it is not the one asked for.
  static std::unique_ptr<Port> open(std::unique_ptr<Port> inner, const std::string& interface_name,
                                    const std::string& path, std::string* error);
  /// Writes what is still in the ring.
  ~CapturePort() override;

  std::size_t rx_burst(std::span<RxFrame> out) override;
  std::size_t tx_reserve(Route& route, std::span<TxSlot> out) override;
  void tx_commit(Route& route, std::span<const std::uint32_t> frame_bytes) override;
  void close() override;

 private:
  static constexpr std::size_t kMaxReserved = 64;

  CapturePort(std::unique_ptr<Port> inner, std::unique_ptr<PcapngWriter> writer);
  void finish();
  void keep(const std::byte* frame, std::uint32_t bytes, CaptureDirection direction);

  // The writing thread.
  static void* thread_main(void* self);
  void run();
  bool drain();

  std::unique_ptr<PcapngWriter> writer_;
  FrameRing ring_;
  std::array<TxSlot, kMaxReserved> reserved_{};

  std::atomic<std::uint64_t> frames_{0};   ///< worker writes
  std::atomic<std::uint64_t> dropped_{0};  ///< worker writes
  std::atomic<bool> stop_{false};
  bool write_failed_ = false;
  pthread_t thread_{};
};

}  // namespace roci
