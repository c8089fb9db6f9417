#include "tests/clients/ring_neighbour.h"

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

namespace allreduce {
namespace {

constexpr std::uint64_t kFlushId = 1;
constexpr std::uint64_t kAnnounceId = 2;
constexpr std::uint64_t kDataId = 3;
/// Parts of a message begin at multiples of this.
constexpr std::size_t kPartAlignment = 128;
/// Every so many announcements one is signalled, so that the send queue empties.
constexpr std::uint64_t kSignalEvery = kSlots;

std::string line_of(const std::string& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

bool is_v4(const ibv_gid& gid) {
  constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::memcmp(gid.raw, kMapped, sizeof kMapped) == 0;
}

/// As long as the process lives.
void follow_events(const LoadedVerbs* verbs, ibv_context* context) {
  ibv_async_event event{};
  while (verbs->ibv_get_async_event(context, &event) == 0) {
    std::printf("allreduce: event: %s\n", verbs->ibv_event_type_str(event.event_type));
    verbs->ibv_ack_async_event(&event);
  }
}

ibv_cq* make_cq(const Device& device) {
  ibv_cq* cq = device.verbs.ibv_create_cq(device.context, 2 * kQps * kSlots, nullptr, nullptr, 0);
  require(cq != nullptr, "create_cq");
  return cq;
}

/// In small batches; each completion is a success.
template <class Take>
void poll(ibv_cq* cq, const Take& take) {
  ibv_wc completions[4];
  const int found = ibv_poll_cq(cq, 4, completions);
  require(found >= 0, "poll_cq");
  for (int i = 0; i < found; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS) {
      std::fprintf(stderr, "allreduce: completion with status %d, opcode %d, vendor error %u\n", completions[i].status,
                   completions[i].opcode, completions[i].vendor_err);
      std::exit(1);
    }
    take(completions[i]);
  }
}

void post(ibv_qp* qp, ibv_send_wr* wr) {
  ibv_send_wr* bad = nullptr;
  require(ibv_post_send(qp, wr, &bad) == 0, "post_send");
}

}  // namespace

Device::Device(const LoadedVerbs& functions) : verbs(functions) {
  require(verbs.ibv_fork_init() == 0, "fork_init");
  open();
  choose_gid();
  pd = verbs.ibv_alloc_pd(context);
  require(pd != nullptr, "alloc_pd");
  probe_dmabuf();
  std::thread(follow_events, &verbs, context).detach();
}

Device::~Device() { require(verbs.ibv_dealloc_pd(pd) == 0, "dealloc_pd"); }

void Device::open() {
  int count = 0;
  ibv_device** list = verbs.ibv_get_device_list(&count);
  require(list != nullptr && count == 1, "get_device_list");
  require(!is_of_mlx5(list[0]), "mlx5dv_is_supported");
  context = verbs.ibv_open_device(list[0]);
  require(context != nullptr, "open_device");
  char path[PATH_MAX];
  const std::string device = std::string(list[0]->ibdev_path) + "/device";
  require(realpath(device.c_str(), path) != nullptr, "realpath of the device");
  verbs.ibv_free_device_list(list);
  ibv_device_attr attr{};
  require(verbs.ibv_query_device(context, &attr) == 0 && attr.phys_port_cnt == 1, "query_device");
  require(verbs.ibv_query_port(context, 1, &port) == 0, "query_port");
  require(port.state == IBV_PORT_ACTIVE && port.link_layer == IBV_LINK_LAYER_ETHERNET, "the port's state");
}

/// The first IPv4 row that sysfs says is of RoCE v2.
void Device::choose_gid() {
  const std::string name = verbs.ibv_get_device_name(context->device);
  for (int i = 0; i < port.gid_tbl_len && gid_index < 0; ++i) {
    require(verbs.ibv_query_gid(context, 1, i, &gid) == 0, "query_gid");
    const std::string type = line_of("/sys/class/infiniband/" + name + "/ports/1/gid_attrs/types/" + std::to_string(i));
    require(!type.empty(), "the type of a GID in sysfs");
    if (type == "RoCE v2" && is_v4(gid)) gid_index = i;
  }
  require(gid_index >= 0, "no IPv4 address of RoCE v2");
}

/// A descriptor that is none: the errno tells whether such memory can be registered at all.
void Device::probe_dmabuf() const {
  if (verbs.ibv_reg_dmabuf_mr == nullptr) return;
  errno = 0;
  require(verbs.ibv_reg_dmabuf_mr(pd, 0, 0, 0, -1, 0) == nullptr, "reg_dmabuf_mr of no descriptor");
  require(errno == EOPNOTSUPP || errno == EPROTONOSUPPORT || errno == EBADF, "reg_dmabuf_mr's errno");
}

ibv_mr* Device::register_memory(void* data, std::size_t bytes) const {
  constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  ibv_mr* mr = verbs.ibv_reg_mr_iova2 != nullptr
                   ? verbs.ibv_reg_mr_iova2(pd, data, bytes, reinterpret_cast<std::uintptr_t>(data),
                                            kAccess | IBV_ACCESS_RELAXED_ORDERING)
                   : verbs.ibv_reg_mr(pd, data, bytes, kAccess);
  require(mr != nullptr, "reg_mr");
  return mr;
}

ibv_qp* Device::make_qp(ibv_cq* cq, unsigned access) const {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq;
  init.qp_type = IBV_QPT_RC;
  init.cap = {
      .max_send_wr = 2 * kSlots, .max_recv_wr = kSlots, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
  ibv_qp* qp = verbs.ibv_create_qp(pd, &init);
  require(qp != nullptr, "create_qp");
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = access;
  require(verbs.ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0,
          "modify_qp to INIT");
  return qp;
}

void Device::connect(ibv_qp* qp, std::uint32_t dest_qpn, const ibv_gid& dgid, ibv_mtu mtu) const {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = std::min(mtu, port.active_mtu);
  attr.dest_qp_num = dest_qpn;
  attr.max_dest_rd_atomic = 1;
  attr.min_rnr_timer = 12;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.grh.dgid = dgid;
  attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attr.ah_attr.grh.hop_limit = 255;
  attr.ah_attr.port_num = 1;
  require(verbs.ibv_modify_qp(qp, &attr,
                              IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0,
          "modify_qp to RTR");
  ibv_qp_attr rts{};
  rts.qp_state = IBV_QPS_RTS;
  rts.timeout = 14;
  rts.retry_cnt = 7;
  rts.rnr_retry = 7;
  rts.max_rd_atomic = 1;
  require(verbs.ibv_modify_qp(qp, &rts,
                              IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                  IBV_QP_MAX_QP_RD_ATOMIC) == 0,
          "modify_qp to RTS");
}

Sender::Sender(Device& device)
    : device_(device), cq_(make_cq(device)), slots_mr_(device.register_memory(slots_.data(), sizeof slots_)) {
  for (ibv_qp*& qp : qps_) qp = device_.make_qp(cq_, IBV_ACCESS_REMOTE_WRITE);
}

Sender::~Sender() {
  for (ibv_qp* qp : qps_) require(device_.verbs.ibv_destroy_qp(qp) == 0, "destroy_qp");
  require(device_.verbs.ibv_dereg_mr(slots_mr_) == 0, "dereg_mr");
  require(device_.verbs.ibv_destroy_cq(cq_) == 0, "destroy_cq");
}

EndPoint Sender::describe() const {
  EndPoint own{.gid = device_.gid,
               .slots_address = reinterpret_cast<std::uintptr_t>(slots_.data()),
               .slots_rkey = slots_mr_->rkey,
               .mtu = device_.port.active_mtu};
  for (std::size_t i = 0; i < kQps; ++i) own.qpns[i] = qps_[i]->qp_num;
  return own;
}

void Sender::connect(const EndPoint& receiver) {
  for (std::size_t i = 0; i < kQps; ++i) device_.connect(qps_[i], receiver.qpns[i], receiver.gid, receiver.mtu);
}

void Sender::begin(const std::byte* data, std::size_t bytes, const ibv_mr* mr) {
  data_ = data;
  bytes_ = bytes;
  mr_ = mr;
  ++number_;
  posted_ = false;
}

bool Sender::progress() {
  Slot& slot = slots_[number_ % kSlots];
  if (!posted_ && __atomic_load_n(&slot.number, __ATOMIC_ACQUIRE) == number_) post();
  poll(cq_, [this](const ibv_wc& wc) {
    require(wc.opcode == IBV_WC_RDMA_WRITE && wc.wr_id == kDataId, "the completion of a write");
    --outstanding_;
  });
  return posted_ && outstanding_ == 0;
}

/// The data in one part for each queue pair; behind each part a write of no bytes tells its length.
void Sender::post() {
  const Slot slot = slots_[number_ % kSlots];
  require(slot.bytes == bytes_, "the length that the receiver announced");
  const std::size_t even = (bytes_ + kQps - 1) / kQps;
  const std::size_t part = (even + kPartAlignment - 1) / kPartAlignment * kPartAlignment;
  for (std::size_t i = 0; i < kQps; ++i) {
    const std::size_t from = std::min(i * part, bytes_);
    const std::size_t bytes = std::min(part, bytes_ - from);
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(data_ + from), static_cast<std::uint32_t>(bytes), mr_->lkey};
    ibv_send_wr last{};
    last.wr_id = kDataId;
    last.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    last.send_flags = IBV_SEND_SIGNALED;
    last.imm_data = htobe32(static_cast<std::uint32_t>(bytes));
    ibv_send_wr data{};
    data.wr_id = kDataId;
    data.sg_list = &sge;
    data.num_sge = 1;
    data.opcode = IBV_WR_RDMA_WRITE;
    data.wr.rdma = {.remote_addr = slot.address + from, .rkey = slot.rkey};
    data.next = &last;
    // Behind the first part the immediate data follow in a request of their own, elsewhere they go with the data.
    if (i > 0 && bytes > 0) {
      data.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      data.send_flags = last.send_flags;
      data.imm_data = last.imm_data;
      data.next = nullptr;
    }
    allreduce::post(qps_[i], bytes == 0 ? &last : &data);
  }
  outstanding_ = kQps;
  posted_ = true;
}

Receiver::Receiver(Device& device)
    : device_(device),
      cq_(make_cq(device)),
      flush_qp_(device.make_qp(cq_, IBV_ACCESS_REMOTE_READ)),
      slots_mr_(device.register_memory(slots_.data(), sizeof slots_)),
      flushed_mr_(device.register_memory(&flushed_, sizeof flushed_)) {
  for (ibv_qp*& qp : qps_) qp = device_.make_qp(cq_, IBV_ACCESS_REMOTE_WRITE);
  device_.connect(flush_qp_, flush_qp_->qp_num, device_.gid, device_.port.active_mtu);
}

Receiver::~Receiver() {
  for (ibv_qp* qp : qps_) require(device_.verbs.ibv_destroy_qp(qp) == 0, "destroy_qp");
  require(device_.verbs.ibv_destroy_qp(flush_qp_) == 0, "destroy_qp");
  for (ibv_mr* mr : {slots_mr_, flushed_mr_}) require(device_.verbs.ibv_dereg_mr(mr) == 0, "dereg_mr");
  require(device_.verbs.ibv_destroy_cq(cq_) == 0, "destroy_cq");
}

EndPoint Receiver::describe() const {
  EndPoint own{.gid = device_.gid, .slots_address = 0, .slots_rkey = 0, .mtu = device_.port.active_mtu};
  for (std::size_t i = 0; i < kQps; ++i) own.qpns[i] = qps_[i]->qp_num;
  return own;
}

void Receiver::connect(const EndPoint& sender) {
  sender_ = sender;
  for (std::size_t i = 0; i < kQps; ++i) device_.connect(qps_[i], sender.qpns[i], sender.gid, sender.mtu);
}

void Receiver::begin(std::byte* data, std::size_t bytes, const ibv_mr* mr) {
  data_ = data;
  bytes_ = bytes;
  mr_ = mr;
  ++number_;
  arrived_ = 0;
  arrived_bytes_ = 0;
  done_ = false;
  for (ibv_qp* qp : qps_) {
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    wr.wr_id = number_;
    require(ibv_post_recv(qp, &wr, &bad) == 0, "post_recv");
  }
  announce();
}

void Receiver::announce() {
  const std::size_t index = number_ % kSlots;
  slots_[index] = {.address = reinterpret_cast<std::uintptr_t>(data_),
                   .bytes = bytes_,
                   .rkey = mr_->rkey,
                   .reserved = {},
                   .number = number_};
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(&slots_[index]), sizeof(Slot), slots_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = kAnnounceId;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma = {.remote_addr = sender_.slots_address + index * sizeof(Slot), .rkey = sender_.slots_rkey};
  if (number_ % kSignalEvery == 0) wr.send_flags = IBV_SEND_SIGNALED;
  post(qps_[0], &wr);
}

bool Receiver::progress() {
  poll(cq_, [this](const ibv_wc& wc) { take(wc); });
  if (!done_ && !flushing_ && arrived_ == kQps) flush();
  return done_;
}

void Receiver::take(const ibv_wc& wc) {
  if (wc.opcode == IBV_WC_RDMA_WRITE) return require(wc.wr_id == kAnnounceId, "the completion of an announcement");
  if (wc.opcode == IBV_WC_RDMA_READ) {
    require(wc.wr_id == kFlushId && flushing_, "the completion of a flush");
    flushing_ = false;
    done_ = true;
    return;
  }
  require(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && (wc.wc_flags & IBV_WC_WITH_IMM) != 0 && wc.wr_id == number_,
          "the completion of a receive");
  ++arrived_;
  arrived_bytes_ += be32toh(wc.imm_data);
}

void Receiver::flush() {
  require(arrived_bytes_ == bytes_, "the bytes that arrived");
  if (bytes_ == 0) {
    done_ = true;
    return;
  }
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(&flushed_), 1, flushed_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = kFlushId;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_READ;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.wr.rdma = {.remote_addr = reinterpret_cast<std::uintptr_t>(data_), .rkey = mr_->rkey};
  flushing_ = true;
  post(flush_qp_, &wr);
}

}  // namespace allreduce
