#include "tests/sim/fault_pair.h"

#include <cstring>

#include "drivers/sim/rc_connection.h"

namespace roci::simtest {

std::uint64_t FaultPair::Side::word(std::size_t offset) const {
  std::uint64_t value;
  std::memcpy(&value, memory.data() + offset, sizeof value);
  return value;
}

FaultScript FaultPair::script(const std::string& text) {
  FaultScript parsed;
  std::string error;
  EXPECT_TRUE(parse_fault_script(text, "test", &parsed, &error)) << error;
  return parsed;
}

FaultPair::FaultPair(const Options& options)
    : attr_(options.attr), to_b_(script(options.to_b)), to_a_(script(options.to_a)) {
  sim::LinkConfig link = options.link;
  link.faults = &to_b_;
  simulation.network().set_link(0, 1, link);
  link.faults = &to_a_;
  simulation.network().set_link(1, 0, link);
  make(a, options);
  make(b, options);
  connect(a, b);
  connect(b, a);
  for (std::size_t i = 0; i < kBytes; ++i) {
    a.memory[i] = static_cast<std::byte>(i * 7 + i / 251);
    b.memory[i] = static_cast<std::byte>(i * 13 + i / 241);
  }
}

FaultPair::~FaultPair() {
  for (Side* side : {&a, &b}) {
    side->host->device().destroy_qp(side->qp);
    side->host->device().dereg_mr(side->mr);
    side->host->device().destroy_cq(side->cq);
    side->host->device().dealloc_pd(side->pd);
  }
}

void FaultPair::make(Side& side, const Options& options) {
  const auto number = static_cast<std::uint32_t>(simulation.hosts());
  side.host = &simulation.add_host({.device = options.device, .decorate = [this, number](std::unique_ptr<Port> port) {
                                      return std::make_unique<RecordedPort>(std::move(port), *this, number);
                                    }});
  Device& device = side.host->device();
  EXPECT_EQ(device.alloc_pd(&side.pd), 0);
  EXPECT_EQ(device.create_cq(256, nullptr, &side.cq), 0);
  EXPECT_EQ(device.reg_mr(side.pd, side.memory.data(), kBytes, side.iova(),
                          kAccessLocalWrite | kAccessRemoteWrite | kAccessRemoteRead | kAccessRemoteAtomic, &side.mr),
            0);
  QpInit init{.send_cq = side.cq,
              .recv_cq = side.cq,
              .capacity = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1}};
  EXPECT_EQ(device.create_qp(side.pd, init, &side.qp), 0);
  side.host->set_application([&side] {
    std::array<Cqe, 16> cqes;
    for (std::size_t n = side.cq->poll(cqes); n > 0; n = side.cq->poll(cqes))
      side.completions.insert(side.completions.end(), cqes.begin(), cqes.begin() + static_cast<std::ptrdiff_t>(n));
  });
}

void FaultPair::connect(Side& side, const Side& peer) {
  Device& device = side.host->device();
  QpAttr attr = attr_;
  attr.dest_qpn = peer.qp->qpn();
  attr.av.dgid = sim::v4_address(peer.host->number());
  EXPECT_EQ(sim::bring_up(device, side.qp, attr), 0);
}

void FaultPair::post(WrOpcode opcode, std::uint32_t length, std::uint32_t local, std::uint32_t remote) {
  const Sge sge = a.sge(local, length);
  EXPECT_EQ(a.host->post_send(a.qp, {.wr_id = next_wr_id_++,
                                     .opcode = opcode,
                                     .flags = kSendSignaled,
                                     .num_sge = 1,
                                     .sges = &sge,
                                     .imm_or_rkey = 0x01020304,
                                     .remote_addr = b.iova() + remote,
                                     .rkey = RKey{b.mr->key},
                                     .compare_add = opcode == WrOpcode::kAtomicCmpSwp ? b.word(remote) : 5,
                                     .swap = 77}),
            0);
}

void FaultPair::post_receive(std::uint32_t offset, std::uint32_t length) {
  const Sge sge = b.sge(offset, length);
  EXPECT_EQ(b.host->device().post_recv(b.qp, {.wr_id = next_wr_id_++, .num_sge = 1, .sges = &sge}), 0);
}

void FaultPair::note(Instant now, std::uint32_t host, bool sent, std::span<const std::byte> frame) {
  PacketView view;
  if (!parse_frame(frame, &view) || !icrc_is_right(frame, view)) return;
  SeenFrame noted{.at = now,
                  .host = host,
                  .sent = sent,
                  .opcode = static_cast<Opcode>(view.bth.opcode),
                  .psn = view.bth.psn,
                  .dma_length = 0,
                  .kind = AethKind::kReserved};
  if (view.info->has(Extension::kReth)) noted.dma_length = view.reth().dma_length;
  if (view.info->has(Extension::kAeth)) noted.kind = aeth_kind(view.aeth().syndrome);
  seen.push_back(noted);
  if (sent && host == 1 && noted.opcode == Opcode::kCnp) cnps.emplace_back(frame.begin(), frame.end());
}

void FaultPair::on_sent(Instant now, std::uint32_t host, std::span<const std::byte> frame) {
  note(now, host, true, frame);
}

void FaultPair::on_received(Instant now, std::uint32_t host, std::span<const std::byte> frame) {
  note(now, host, false, frame);
}

std::vector<std::string> FaultPair::log(bool with_received) const {
  std::vector<std::string> lines;
  for (const SeenFrame& frame : seen) {
    if (!frame.sent && !with_received) continue;
    std::string line = frame.host == 0 ? "A" : "B";
    line += (frame.sent ? "> " : "< ") + std::string(opcode_info(frame.opcode).name) + " " +
            std::to_string(frame.psn.value());
    if (frame.kind == AethKind::kNak) line += " NAK";
    if (frame.kind == AethKind::kRnrNak) line += " RNR";
    lines.push_back(line);
  }
  return lines;
}

std::vector<SeenFrame> FaultPair::sent_by(const Side& side) const {
  std::vector<SeenFrame> frames;
  for (const SeenFrame& frame : seen)
    if (frame.sent && frame.host == side.host->number()) frames.push_back(frame);
  return frames;
}

std::vector<SeenFrame> FaultPair::naks_sent_by(const Side& side) const {
  std::vector<SeenFrame> frames;
  for (const SeenFrame& frame : sent_by(side))
    if (frame.kind == AethKind::kNak) frames.push_back(frame);
  return frames;
}

}  // namespace roci::simtest
