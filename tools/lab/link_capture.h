// Both directions of one simulated link, in a pcapng file with stamps of virtual time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "drivers/capture/pcapng_writer.h"
#include "drivers/sim/fabric_link.h"
#include "drivers/sim/fabric_network.h"
#include "stack/base/units.h"
#include "tools/lab/scenario.h"

namespace roci::lab {

/// An end of a link; outbound is what it sends.
struct CaptureEnd {
  bool is_host = true;
  std::uint32_t node = 0;
  std::uint32_t port = 0;  ///< of a switch
};

/// `host3` or `switch0:2`, which are there in the scenario.
Parsed<CaptureEnd> parse_capture_end(std::string_view text, const Scenario& scenario);

class LinkCapture {
 public:
  /// Opens `path`; null with what is wrong in `*error`.
  static std::unique_ptr<LinkCapture> open(const std::string& path, const CaptureEnd& end, std::string* error);

  /// Before the first frame. Outlives the network's running.
  void attach(sim::FabricNetwork& network);
  /// No more frames come. False: the file is not complete.
  bool finish(Instant now);
  const std::string& path() const { return writer_->path(); }

 private:
  class Direction : public sim::LinkObserver {
   public:
    Direction(LinkCapture& capture, CaptureDirection direction) : capture_(capture), direction_(direction) {}
    void on_frame(const fabric::Frame& frame, Instant now) override { capture_.write(frame, now, direction_); }

   private:
    LinkCapture& capture_;
    const CaptureDirection direction_;
  };

  LinkCapture(std::unique_ptr<PcapngWriter> writer, const CaptureEnd& end) : writer_(std::move(writer)), end_(end) {}
  void write(const fabric::Frame& frame, Instant now, CaptureDirection direction);

  std::unique_ptr<PcapngWriter> writer_;
  const CaptureEnd end_;
  Direction outbound_{*this, CaptureDirection::kOutbound};
  Direction inbound_{*this, CaptureDirection::kInbound};
  std::uint64_t frames_ = 0;
};

}  // namespace roci::lab
