#include "tests/fuzz/seeds.h"

#include <algorithm>

#include "stack/queues/work.h"
#include "stack/wire/packet.h"
#include "tests/fuzz/input.h"

namespace roci::fuzz {
namespace {

constexpr std::size_t kLongSeedBytes = 12'000;
constexpr std::uint32_t kRegions = 4;
constexpr std::uint32_t kQps = 3;
constexpr std::uint8_t kAllRights = 0xf;

/// One QP in RTS, with receive requests, and regions that take the longest message of the captures.
void put_settings(InputWriter& out, bool is_v4, std::uint8_t mtu) {
  constexpr std::uint8_t kIpv6 = 8;
  constexpr std::uint8_t kRts = 3;
  constexpr std::uint8_t kReads = 0x88;
  constexpr std::uint8_t kTimeout = 14;
  constexpr std::uint8_t kRetries = 7 | 7 << 3;
  constexpr std::uint8_t kRnrTimer = 12;
  out.u8(is_v4 ? 0 : kIpv6);
  for (std::uint32_t region = 0; region < kRegions; ++region)
    for (const std::uint8_t value : {std::uint8_t{0}, kAllRights, std::uint8_t{0}}) out.u8(value);
  for (std::uint32_t qp = 0; qp < kQps; ++qp)
    for (const std::uint8_t value : {kRts, kAllRights, mtu, kReads, kTimeout, kRetries, kRnrTimer, std::uint8_t{7}})
      out.u8(value);
}

void put_elements(InputWriter& out, std::uint32_t length) {
  out.u8(0);
  out.u16(0);
  out.u16(length);
}

void put_receive(InputWriter& out) {
  out.u8(step_byte(StepKind::kReceive, 0, 1));
  put_elements(out, UINT16_MAX / 4);
}

void put_send(InputWriter& out, WrOpcode opcode, std::uint32_t length) {
  out.u8(step_byte(StepKind::kSend, 0, 2));
  out.u8(static_cast<std::uint8_t>(opcode));
  out.u8(kSendSignaled);
  put_elements(out, std::min<std::uint32_t>(length, UINT16_MAX));
}

void put_frame(InputWriter& out, std::uint8_t repairs, std::span<const std::byte> frame) {
  out.u8(step_byte(StepKind::kFrame, 0, 0));
  out.u8(repairs);
  out.u8(0);
  out.u16(static_cast<std::uint32_t>(frame.size()));
  out.put(frame);
}

WrOpcode work_of(const OpcodeInfo& info) {
  switch (info.operation) {
    case Operation::kRdmaWrite:
      return info.has(Extension::kImmDt) ? WrOpcode::kRdmaWriteWithImm : WrOpcode::kRdmaWrite;
    case Operation::kRdmaReadRequest:
      return WrOpcode::kRdmaRead;
    case Operation::kCompareSwap:
      return WrOpcode::kAtomicCmpSwp;
    case Operation::kFetchAdd:
      return WrOpcode::kAtomicFetchAdd;
    default:
      return info.has(Extension::kImmDt) ? WrOpcode::kSendWithImm : WrOpcode::kSend;
  }
}

std::uint32_t message_bytes(const PacketView& view, std::uint32_t payload_so_far) {
  switch (view.info->operation) {
    case Operation::kRdmaReadRequest:
      return view.reth().dma_length;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      return sizeof(std::uint64_t);
    default:
      return payload_so_far;
  }
}

class SeedMaker {
 public:
  SeedMaker(const test::Capture& capture, bool is_v4, std::uint8_t mtu) : capture_(capture), is_v4_(is_v4), mtu_(mtu) {
    begin();
  }

  void add(const PacketView& view, std::span<const std::byte> frame) {
    // Datagrams and CM messages are for other QPs: as they are.
    if (view.info->transport != Transport::kRc) return put_frame(out_, 0, frame);
    if (!view.info->is_request()) return put_frame(out_, kRepairAll, frame);
    if (view.info->is_first()) {
      if (out_.size() > kLongSeedBytes) begin();
      payload_ = 0;
    }
    payload_ += view.payload_bytes;
    if (view.info->takes_recv_wqe) put_receive(out_);
    put_frame(out_, kRepairAll, frame);
    if (view.info->is_last()) put_send(out_, work_of(*view.info), message_bytes(view, payload_));
  }

  std::vector<Seed> take() {
    finish();
    return std::move(seeds_);
  }

 private:
  void begin() {
    finish();
    put_settings(out_, is_v4_, mtu_);
  }
  void finish() {
    if (out_.size() > 0) seeds_.push_back({capture_.name + "-" + std::to_string(seeds_.size()), out_.take()});
    out_ = {};
  }

  const test::Capture& capture_;
  const bool is_v4_;
  const std::uint8_t mtu_;
  InputWriter out_;
  std::vector<Seed> seeds_;
  std::uint32_t payload_ = 0;  ///< bytes of the message under way
};

PacketView view_of(const test::FrameBytes& frame) {
  PacketView view;
  const std::span<const std::byte> bytes(frame);
  if (parse_packet(bytes.first(std::min(frame.size(), kHeaderCopyBytes)), static_cast<std::uint32_t>(frame.size()),
                   &view) != ParseStatus::kOk)
    throw std::runtime_error("a golden capture holds a frame that is no packet");
  return view;
}

}  // namespace

std::vector<Seed> seeds_of(const test::Capture& capture) {
  constexpr std::uint8_t kMtu1024 = 2;  // code of ibv_mtu less one, as a World's settings have it
  constexpr std::uint8_t kMtu4096 = 4;
  bool is_v4 = true;
  std::uint32_t longest = 0;
  for (const test::FrameBytes& frame : capture.frames) {
    const PacketView view = view_of(frame);
    if (view.info->transport == Transport::kRc) is_v4 = view.is_v4;
    longest = std::max(longest, view.payload_bytes);
  }
  SeedMaker maker(capture, is_v4, longest > 1024 ? kMtu4096 : kMtu1024);
  for (const test::FrameBytes& frame : capture.frames) maker.add(view_of(frame), frame);
  return maker.take();
}

}  // namespace roci::fuzz
