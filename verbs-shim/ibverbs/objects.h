// The objects that verbs hands out: the public structure first, then what is ours. Clients see only the former.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "drivers/live/live_device.h"
#include "verbs-shim/ibverbs/event_queue.h"

// The header makes macros of functions that this library defines.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace roci::shim {

struct ShimDevice {
  ibv_device base;
  /// Clients of hardware providers compare what lies here with the address of their own table: it matches none.
  const void* provider;
  std::uint64_t guid;  ///< host order
};

struct ShimContext {
  verbs_context verbs;
  LiveDevice* live;
  EventQueue<AsyncEvent>* async_events;
  std::atomic<std::uint32_t> objects;  ///< PDs, TDs and CQs: all others hang on one
};

/// A promise of the client's to use what is made on it from one thread at a time. The data path gains nothing by it.
struct ShimTd {
  ibv_td base;
  std::atomic<std::uint32_t> parent_domains;
};

/// A PD, or a parent domain: another handle of the PD that it was made of.
struct ShimPd {
  ibv_pd base;
  Pd* pd;
  std::atomic<std::uint32_t> parent_domains;  ///< made of this one
  ShimPd* parent_of;                          ///< null for a PD
  ShimTd* td;                                 ///< of a parent domain, may be null
};

struct ShimMr {
  ibv_mr base;
  Mr* mr;
};

struct ShimMw {
  ibv_mw base;
  Mw* mw;
};

struct ShimCq;

struct ShimChannel {
  ibv_comp_channel base;
  EventQueue<ShimCq*>* events;
};

struct ShimCq {
  ibv_cq_ex base;
  Cq* cq;
  std::uint32_t completion_events_delivered;
  std::uint32_t async_events_delivered;
  SpinLock extended_poll_lock;  ///< held from start_poll to end_poll
  Cqe current;
};

struct ShimSrq {
  ibv_srq base;
  Srq* srq;
  std::uint32_t async_events_delivered;
};

struct ShimAh {
  ibv_ah base;
  AddressHandle* ah;
};

/// What ibv_wr_* calls gather between wr_start and wr_complete. Elements and inline data are kept by index, since the
/// vectors grow.
struct WrBatch {
  /// Where the data of one request lies.
  struct Data {
    std::size_t first_sge;
    std::size_t first_inline_byte;
    std::size_t inline_bytes;
    Sge inline_sge;
  };
  std::vector<SendRequest> requests;
  std::vector<Data> data;  ///< one for each request
  std::vector<Sge> sges;
  std::vector<std::byte> inline_data;
  int error = 0;
};

struct ShimQp {
  ibv_qp_ex base;
  Qp* qp;
  std::uint32_t async_events_delivered;
  bool signal_all;
  std::uint64_t send_ops;  ///< operations that the extended interface was created with
  SpinLock batch_lock;     ///< held from wr_start to wr_complete or wr_abort
  WrBatch batch;
};

// From what a client holds to what it is.
inline ShimContext* from(ibv_context* context) {
  return reinterpret_cast<ShimContext*>(reinterpret_cast<std::byte*>(context) - offsetof(verbs_context, context));
}
inline ShimTd* from(ibv_td* td) { return reinterpret_cast<ShimTd*>(td); }
inline ShimPd* from(ibv_pd* pd) { return reinterpret_cast<ShimPd*>(pd); }
inline ShimMr* from(ibv_mr* mr) { return reinterpret_cast<ShimMr*>(mr); }
inline ShimMw* from(ibv_mw* mw) { return reinterpret_cast<ShimMw*>(mw); }
inline ShimChannel* from(ibv_comp_channel* channel) { return reinterpret_cast<ShimChannel*>(channel); }
inline ShimCq* from(ibv_cq* cq) { return reinterpret_cast<ShimCq*>(cq); }
inline ShimCq* from(ibv_cq_ex* cq) { return reinterpret_cast<ShimCq*>(cq); }
inline ShimSrq* from(ibv_srq* srq) { return reinterpret_cast<ShimSrq*>(srq); }
inline ShimAh* from(ibv_ah* ah) { return reinterpret_cast<ShimAh*>(ah); }
inline ShimQp* from(ibv_qp* qp) { return reinterpret_cast<ShimQp*>(qp); }
inline ShimQp* from(ibv_qp_ex* qp) { return reinterpret_cast<ShimQp*>(qp); }
inline ibv_cq* base_of(ShimCq* cq) { return reinterpret_cast<ibv_cq*>(&cq->base); }

inline LiveDevice& live_of(ibv_context* context) { return *from(context)->live; }
inline Device& device_of(ibv_context* context) { return live_of(context).device(); }

/// In a child of the process that opened the device nothing works but what only looks at the objects.
inline bool is_detached(ibv_context* context) { return live_of(context).detached(); }

template <class T>
T* fail_with(int error) {
  errno = error;
  return nullptr;
}

/// The functions of one context, put where the inline functions of the header look for them.
void fill_operations(verbs_context* verbs);

}  // namespace roci::shim

/// What the shared library exports: the version script names them.
#define ROCI_EXPORT extern "C" __attribute__((visibility("default")))
