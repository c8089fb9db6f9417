// Completion queues, polled the extended way: one CQE at a time, its fields read by functions.
#include <cerrno>
#include <ctime>

#include "drivers/live/clock.h"
#include "verbs-shim/ibverbs/objects.h"
#include "verbs-shim/ibverbs/operations.h"

namespace roci::shim {
namespace {

int next(ibv_cq_ex* base) {
  ShimCq* shim = from(base);
  if (shim->cq->poll({&shim->current, 1}) == 0) return ENOENT;
  base->wr_id = shim->current.wr_id;
  base->status = static_cast<ibv_wc_status>(shim->current.status);
  return 0;
}

int start_poll(ibv_cq_ex* base, ibv_poll_cq_attr* attr) {
  if (attr->comp_mask != 0) return EINVAL;
  if (is_detached(base->context)) return EIO;
  ShimCq* shim = from(base);
  shim->extended_poll_lock.lock();
  int error = next(base);
  if (error != 0) {
    live_of(base->context).progress_polled();
    error = next(base);
  }
  if (error != 0) shim->extended_poll_lock.unlock();
  return error;
}

void end_poll(ibv_cq_ex* base) { from(base)->extended_poll_lock.unlock(); }

const Cqe& current(ibv_cq_ex* base) { return from(base)->current; }

/// Completions carry the monotonic clock; the wall clock is that, moved by the present difference.
std::uint64_t wallclock_ns(ibv_cq_ex* base) {
  timespec wall;
  clock_gettime(CLOCK_REALTIME, &wall);
  const std::int64_t wall_ns = std::int64_t{wall.tv_sec} * 1'000'000'000 + wall.tv_nsec;
  return current(base).timestamp_ns + static_cast<std::uint64_t>(wall_ns - live_now().ps / 1000);
}

}  // namespace

void fill_extended_poll(ibv_cq_ex* base) {
  base->start_poll = start_poll;
  base->next_poll = next;
  base->end_poll = end_poll;
  base->read_opcode = [](ibv_cq_ex* cq) { return static_cast<ibv_wc_opcode>(current(cq).opcode); };
  base->read_vendor_err = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  base->read_byte_len = [](ibv_cq_ex* cq) { return current(cq).byte_len; };
  base->read_imm_data = [](ibv_cq_ex* cq) { return static_cast<__be32>(current(cq).imm_or_rkey); };
  base->read_qp_num = [](ibv_cq_ex* cq) { return current(cq).qpn.value; };
  base->read_src_qp = [](ibv_cq_ex* cq) { return current(cq).src_qpn.value; };
  base->read_wc_flags = [](ibv_cq_ex* cq) { return static_cast<unsigned>(current(cq).flags); };
  base->read_slid = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  base->read_sl = [](ibv_cq_ex* cq) { return current(cq).sl; };
  base->read_dlid_path_bits = [](ibv_cq_ex*) { return std::uint8_t{0}; };
  base->read_completion_ts = [](ibv_cq_ex* cq) { return current(cq).timestamp_ns; };
  base->read_completion_wallclock_ns = wallclock_ns;
  base->read_cvlan = [](ibv_cq_ex*) { return std::uint16_t{0}; };
  base->read_flow_tag = [](ibv_cq_ex*) { return std::uint32_t{0}; };
  base->read_tm_info = [](ibv_cq_ex*, ibv_wc_tm_info* info) { *info = {}; };
}

}  // namespace roci::shim
