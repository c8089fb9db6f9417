// A frame parsed as the worker parses it, and its headers written back from their values.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "stack/wire/icrc.h"
#include "stack/wire/packet.h"

namespace roci::test {

/// Parses from a copy of the frame's head that is exactly as long as the contract asks for, on the heap, so that the
/// address sanitizer sees a read beyond it. `frame` outlives this.
class ParsedFrame {
 public:
  explicit ParsedFrame(std::span<const std::byte> frame, bool has_ethernet = true)
      : frame_(frame), head_(frame.begin(), frame.begin() + std::min(frame.size(), kHeaderCopyBytes)) {
    const auto bytes = static_cast<std::uint32_t>(frame.size());
    const bool is_v4 = !frame.empty() && (frame[0] >> 4) == std::byte{4};
    status = has_ethernet ? parse_packet(head_, bytes, &view) : parse_l3_packet(head_, bytes, is_v4, &view);
  }
  ParsedFrame(const ParsedFrame&) = delete;
  ParsedFrame& operator=(const ParsedFrame&) = delete;

  bool icrc_is_right() const {
    return compute_icrc(frame_.data() + view.l3_offset, view.is_v4, view.icrc_offset - view.l3_offset) ==
           load_icrc(frame_.data() + view.icrc_offset);
  }
  bool is_accepted() const { return status == ParseStatus::kOk && icrc_is_right(); }

  ParseStatus status{};
  PacketView view;

 private:
  std::span<const std::byte> frame_;
  std::vector<std::byte> head_;
};

/// The bytes up to the payload, each header read as a value and written again.
std::vector<std::byte> rewritten_headers(const PacketView& view, std::span<const std::byte> frame);

}  // namespace roci::test
