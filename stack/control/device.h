// The device: what verbs calls create, modify, query and destroy, and the way in for work requests.
//
// A device has one worker or several, each with a port of its own; each QP belongs to one of them for good. Control
// calls may come from any thread; each takes the batons of all workers, in the order of their numbers, so it never runs
// beside a turn. They return an errno value (0 is success) as verbs gives it, and change nothing on error. Data-path
// calls (post_*, Cq::poll) do not take a baton; several threads on one object are serialised by the object's own spin
// lock.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cc/congestion_control.h"
#include "stack/base/entropy.h"
#include "stack/base/types.h"
#include "stack/egress/settings.h"
#include "stack/engine/port.h"
#include "stack/engine/worker.h"
#include "stack/mem/memory.h"
#include "stack/qp/address_handle.h"
#include "stack/qp/attributes.h"
#include "stack/qp/qp.h"
#include "stack/queues/completion_queue.h"
#include "stack/queues/recv_queue.h"
#include "stack/queues/work.h"

namespace roci {

/// Limits that create calls enforce exactly and ibv_query_device reports.
struct DeviceLimits {
  std::uint32_t max_qp = 65536;
  std::uint32_t max_qp_wr = 16384;
  std::uint32_t max_sge = 32;
  std::uint32_t max_sge_rd = 32;
  std::uint32_t max_inline_data = 512;
  std::uint32_t max_cq = 65536;
  std::uint32_t max_cqe = 1u << 20;
  std::uint32_t max_mr = 1u << 16;
  std::uint32_t max_mw = 1u << 16;
  std::uint64_t max_mr_size = UINT64_MAX;
  std::uint32_t max_pd = 1u << 16;
  std::uint32_t max_srq = 16384;
  std::uint32_t max_srq_wr = 32768;
  std::uint32_t max_srq_sge = 32;
  std::uint32_t max_ah = 65536;
  std::uint32_t max_mcast_grp = MulticastGroups::kMaxGroups;
  std::uint32_t max_mcast_qp_attach = MulticastGroups::kMaxMembers;
  std::uint8_t max_qp_rd_atom = 128;
  std::uint8_t max_qp_init_rd_atom = 128;
};

struct DeviceConfig {
  DeviceLimits limits;
  std::uint8_t most_mtu = 5;  ///< code of ibv_mtu that the port is to carry at most
  WindowPolicy window;
  CcSpec cc;
  Duration base_rtt{};  ///< that congestion control is told of; 0: not known
  egress::Settings egress;
};

struct QpInit {
  QpType type = QpType::kRc;
  Cq* send_cq = nullptr;
  Cq* recv_cq = nullptr;
  Srq* srq = nullptr;
  QpCapacity capacity;  ///< asked for; create_qp writes back what was granted
  bool signal_all = false;
  void* user = nullptr;  ///< the shim's object
};

struct SrqInit {
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  void* user = nullptr;
};

/// Registered memory: `iova` is the address that the keys speak of.
struct MemoryRange {
  void* addr = nullptr;
  std::uint64_t length = 0;
  std::uint64_t iova = 0;
};

/// What a worker has to itself.
struct WorkerSeat {
  Port* port = nullptr;          ///< outlives the device
  Counters* counters = nullptr;  ///< may be in memory that others read
};

/// Device is the only maker and owner of its objects; what it hands out is valid until the matching destroy call.
class Device {
 public:
  /// One worker for each seat, of which there are at most kMaxWorkers. The ports are ends of one host: the same
  /// addresses, and a block of QP numbers each. `events` gets completion events and asynchronous events, at the end of
  /// the turn that made them, from several workers at a time.
  Device(std::span<const WorkerSeat> seats, EventSink& events, Entropy& entropy, const DeviceConfig& config);
  /// One worker.
  Device(Port& port, EventSink& events, Entropy& entropy, Counters& counters, const DeviceConfig& config);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceConfig& config() const { return config_; }
  std::uint32_t workers() const { return static_cast<std::uint32_t>(workers_.size()); }
  /// The first also has QP1.
  Worker& worker(std::uint32_t number = 0) { return *workers_[number]; }
  /// Number of the worker that the QP belongs to.
  static std::uint32_t worker_of(Qp& qp) { return qp.env().worker; }
  PortAttributes port_attributes();  ///< takes the batons
  /// Code of ibv_mtu that the port now carries; takes the batons.
  std::uint8_t active_mtu();

  int alloc_pd(Pd** pd);
  int dealloc_pd(Pd* pd);  ///< EBUSY while in use

  /// `iova` is the address that the keys speak of. `access` holds AccessFlag bits; EINVAL for remote write or atomic
  /// without local write (IBTA 11.2.8.2).
  int reg_mr(Pd* pd, void* addr, std::uint64_t length, std::uint64_t iova, std::uint32_t access, Mr** mr);
  /// Changes what is not null or asked for: `pd`, memory and `access`; the keys stay. EBUSY while a window is bound to
  /// it.
  int rereg_mr(Mr* mr, Pd* pd, const MemoryRange* range, const std::uint32_t* access);
  int dereg_mr(Mr* mr);  ///< EBUSY while a window is bound to it

  /// `kind` is not kRegion.
  int alloc_mw(Pd* pd, KeyKind kind, Mw** mw);
  int dealloc_mw(Mw* mw);

  int create_cq(std::uint32_t entries, void* user, Cq** cq);
  int resize_cq(Cq* cq, std::uint32_t entries);  ///< EINVAL if more completions wait than fit
  int destroy_cq(Cq* cq);                        ///< EBUSY while a QP uses it

  int create_srq(Pd* pd, const SrqInit& init, Srq** srq);
  int modify_srq(Srq* srq, std::uint32_t limit);  ///< EINVAL above max_wr
  std::uint32_t query_srq_limit(Srq* srq);
  int destroy_srq(Srq* srq);  ///< EBUSY while a QP uses it

  /// Writes back the granted capacity. EINVAL beyond the limits, EOPNOTSUPP for other types than RC, UC and UD.
  int create_qp(Pd* pd, QpInit& init, Qp** qp);
  /// To RESET: completions of the QP that nobody has polled are dropped.
  int modify_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask);
  void query_qp(Qp* qp, QpAttr* attr, QpCapacity* capacity);
  /// The first half of destroying: from now on nothing completes or is raised for the QP. What has completed stays.
  void silence_qp(Qp* qp);
  int destroy_qp(Qp* qp);

  int create_ah(Pd* pd, const AddressVector& av, AddressHandle** ah);  ///< EINVAL for a path that leads nowhere
  /// Datagrams that were posted with it are still sent; a later control call frees it.
  int destroy_ah(AddressHandle* ah);

  /// The UD QP gets what is sent to the multicast group. EINVAL for another type of QP or of address, or if a QP to be
  /// detached is not in the group; ENOMEM beyond the limits.
  int attach_mcast(Qp* qp, const IpAddress& group);
  int detach_mcast(Qp* qp, const IpAddress& group);

  // Any thread, without a baton.
  /// Puts one request on the queue; nothing is sent before ring(). ENOMEM when the queue is full, EINVAL when the
  /// request is malformed or the state does not allow it.
  int post_send(Qp* qp, const SendRequest& request);
  /// As post_send(), for all of the batch or none.
  int post_send_all(Qp* qp, std::span<const SendRequest> batch);
  /// After one or more post_send: the next turn of the worker will look at the QP.
  void ring(Qp* qp) { worker_with(*qp).ring(*qp); }
  int post_recv(Qp* qp, const RecvRequest& request);
  int post_srq_recv(Srq* srq, const RecvRequest& request);

 private:
  class ControlCall;

  void configure(Worker& worker);
  Worker& worker_with(Qp& qp) { return *workers_[worker_of(qp)]; }
  Worker& least_loaded();
  std::uint32_t qps() const;
  std::vector<IpAddress> gids() const;
  /// Those destroyed that no request names any more.
  void free_addresses();
  std::uint8_t mtu_of_link() const;
  int check_path(const AddressVector& av, const std::vector<IpAddress>& gids) const;
  int leave_group(Qp& qp, const IpAddress& group);
  int post_unreliable(Qp* qp, std::span<const SendRequest> batch);
  int route_qp(Qp* qp, const QpAttr& attr, std::uint32_t mask);

  DeviceConfig config_;
  Entropy& entropy_;
  KeyTable keys_;
  std::vector<std::unique_ptr<Worker>> workers_;
  MulticastGroups groups_;  ///< the limits are the device's; each worker knows its own members
  std::vector<std::unique_ptr<AddressHandle>> destroyed_ahs_;  ///< that requests still name
  std::uint32_t pds_ = 0;
  std::uint32_t mrs_ = 0;
  std::uint32_t mws_ = 0;
  std::uint32_t cqs_ = 0;
  std::uint32_t srqs_ = 0;
  std::uint32_t ahs_ = 0;
};

}  // namespace roci
