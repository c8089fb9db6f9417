// Provokes each answer that a responder can give to a request that it must not execute. Client and server go through
// the same list, each case on a pair of QPs of its own; what each saw is a line of its output:
//
//     provoke: NAME qp=QPN requester=STATUS,STATUS
//     provoke: NAME qp=QPN responder=STATUS,... state=STATE events=EVENT,...
//
// Statuses, states and events are the numbers of verbs; -1 for a request that could not be posted, and for the state of
// a QP that is gone. The client posts two requests: the one that provokes, and one
// that would be in order.
#include <fcntl.h>
#include <infiniband/verbs.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "tests/clients/verify_endpoint.h"
#include "tests/clients/verify_options.h"

namespace {

using verify::fail;
using namespace std::chrono_literals;

constexpr unsigned kAllRights =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::size_t kRegionBytes = 8192;

/// Regions of the server; the last two are keys that lead nowhere.
enum Region { kOpen, kOnlyRead, kOnlyWrite, kOtherPd, kDeregistered, kRegions, kOtherKey = kRegions, kNoSuchIndex };

struct Case {
  const char* name;
  ibv_wr_opcode opcode;
  std::uint32_t bytes = 64;
  Region region = kOpen;
  std::int64_t offset = 0;                 ///< of the remote address from the start of the region
  unsigned responder_rights = kAllRights;  ///< of its QP
  std::uint32_t receive_bytes = 0;         ///< 0: no receive is posted
  bool receive_key_is_wrong = false;
  std::uint8_t rnr_retry = 0;
  bool ready_later = false;  ///< the receive is posted while the client already tries
  bool responder_is_gone = false;
  std::uint8_t responder_reads = 4;  ///< max_dest_rd_atomic
};

constexpr auto kWrite = IBV_WR_RDMA_WRITE;
constexpr auto kRead = IBV_WR_RDMA_READ;
constexpr auto kAdd = IBV_WR_ATOMIC_FETCH_AND_ADD;
constexpr auto kSend = IBV_WR_SEND;
constexpr auto kCases = std::to_array<Case>({
    {.name = "write-other-key", .opcode = kWrite, .region = kOtherKey},
    {.name = "write-no-such-key", .opcode = kWrite, .region = kNoSuchIndex},
    {.name = "read-other-key", .opcode = kRead, .region = kOtherKey},
    {.name = "read-no-such-key", .opcode = kRead, .region = kNoSuchIndex},
    {.name = "atomic-other-key", .opcode = kAdd, .bytes = 8, .region = kOtherKey},
    {.name = "write-key-of-other-pd", .opcode = kWrite, .region = kOtherPd},
    {.name = "read-key-of-other-pd", .opcode = kRead, .region = kOtherPd},
    {.name = "write-deregistered", .opcode = kWrite, .region = kDeregistered},
    {.name = "read-deregistered", .opcode = kRead, .region = kDeregistered},
    {.name = "write-past-end", .opcode = kWrite, .offset = kRegionBytes - 63},
    {.name = "write-before-start", .opcode = kWrite, .offset = -1},
    {.name = "write-long-past-end", .opcode = kWrite, .bytes = 3000, .offset = kRegionBytes - 2999},
    {.name = "read-past-end", .opcode = kRead, .offset = kRegionBytes - 63},
    {.name = "read-long-past-end", .opcode = kRead, .bytes = 3000, .offset = kRegionBytes - 2999},
    {.name = "atomic-past-end", .opcode = kAdd, .bytes = 8, .offset = kRegionBytes},
    {.name = "write-0-bytes-other-key", .opcode = kWrite, .bytes = 0, .region = kOtherKey},
    {.name = "read-0-bytes-other-key", .opcode = kRead, .bytes = 0, .region = kOtherKey},
    {.name = "write-region-without-right", .opcode = kWrite, .region = kOnlyRead},
    {.name = "read-region-without-right", .opcode = kRead, .region = kOnlyWrite},
    {.name = "atomic-region-without-right", .opcode = kAdd, .bytes = 8, .region = kOnlyWrite},
    {.name = "write-qp-without-right", .opcode = kWrite, .responder_rights = IBV_ACCESS_REMOTE_READ},
    {.name = "read-qp-without-right", .opcode = kRead, .responder_rights = IBV_ACCESS_REMOTE_WRITE},
    {.name = "atomic-qp-without-right", .opcode = kAdd, .bytes = 8, .responder_rights = IBV_ACCESS_REMOTE_WRITE},
    {.name = "atomic-unaligned", .opcode = kAdd, .bytes = 8, .offset = 4},
    {.name = "read-no-resources", .opcode = kRead, .responder_reads = 0},
    {.name = "send-too-long", .opcode = kSend, .receive_bytes = 63},
    {.name = "send-long-too-long", .opcode = kSend, .bytes = 3000, .receive_bytes = 1500},
    {.name = "send-to-wrong-local-key", .opcode = kSend, .receive_bytes = 64, .receive_key_is_wrong = true},
    {.name = "send-no-receive-retry-0", .opcode = kSend},
    {.name = "send-no-receive-retry-2", .opcode = kSend, .rnr_retry = 2},
    {.name = "write-imm-no-receive-retry-1", .opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .rnr_retry = 1},
    {.name = "send-receive-comes-late", .opcode = kSend, .receive_bytes = 64, .rnr_retry = 7, .ready_later = true},
    {.name = "write-nobody-there", .opcode = kWrite, .responder_is_gone = true},
});

/// What the ends tell each other of a case.
struct Hello {
  ibv_gid gid;
  std::uint32_t qpn;
  std::uint32_t psn;
  std::uint64_t address;  ///< of the region
  std::uint32_t key;      ///< that the request is to name
  std::uint32_t open_key;
  std::uint64_t open_address;
};

template <class T>
T* need(T* object, const char* what) {
  if (object == nullptr) fail("%s: %s", what, std::strerror(errno));
  return object;
}
void need(int error, const char* what) {
  if (error != 0) fail("%s: %s", what, std::strerror(error));
}

class Provoker {
 public:
  explicit Provoker(const verify::Options& options)
      : peer_(options), is_client_(!options.server.empty()), gid_index_(options.gid_index) {
    ibv_device** devices = need(ibv_get_device_list(nullptr), "get_device_list");
    context_ = need(ibv_open_device(devices[0]), "open");
    ibv_free_device_list(devices);
    need(fcntl(context_->async_fd, F_SETFL, O_NONBLOCK) < 0 ? errno : 0, "async_fd");
    need(ibv_query_gid(context_, 1, gid_index_, &gid_), "query_gid");
    pd_ = need(ibv_alloc_pd(context_), "alloc_pd");
    other_pd_ = need(ibv_alloc_pd(context_), "alloc_pd");
    cq_ = need(ibv_create_cq(context_, 16, nullptr, nullptr, 0), "create_cq");
    constexpr unsigned kRights[kRegions] = {kAllRights, IBV_ACCESS_REMOTE_READ,
                                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, kAllRights, kAllRights};
    for (std::size_t i = 0; i < kRegions; ++i) {
      // Room before and after the region.
      memory_[i].resize(3 * kRegionBytes);
      regions_[i] = need(ibv_reg_mr(i == kOtherPd ? other_pd_ : pd_, memory_[i].data() + kRegionBytes, kRegionBytes,
                                    static_cast<int>(kRights[i])),
                         "reg_mr");
      keys_[i] = regions_[i]->rkey;
    }
    keys_[kOtherKey] = keys_[kOpen] ^ 1;
    keys_[kNoSuchIndex] = keys_[kOpen] ^ 0x7f00'0000;
    need(ibv_dereg_mr(regions_[kDeregistered]), "dereg_mr");
  }

  ~Provoker() {
    for (std::size_t i = 0; i < kRegions; ++i)
      if (i != kDeregistered) ibv_dereg_mr(regions_[i]);
    ibv_destroy_cq(cq_);
    ibv_dealloc_pd(other_pd_);
    ibv_dealloc_pd(pd_);
    ibv_close_device(context_);
  }
  Provoker(const Provoker&) = delete;
  Provoker& operator=(const Provoker&) = delete;

  void run(const Case& test) {
    create_qp();
    const Hello theirs = connect(test);
    if (is_client_)
      request(test, theirs);
    else
      respond(test);
    if (qp_ != nullptr) need(ibv_destroy_qp(qp_), "destroy_qp");
    std::fflush(stdout);
  }

 private:
  void create_qp() {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
    init.qp_type = IBV_QPT_RC;
    qp_ = need(ibv_create_qp(pd_, &init), "create_qp");
  }

  std::uint8_t* start_of(Region region) { return memory_[region < kRegions ? region : kOpen].data() + kRegionBytes; }

  Hello connect(const Case& test) {
    const Hello ours{.gid = gid_,
                     .qpn = qp_->qp_num,
                     .psn = 0xfffffe,
                     .address = reinterpret_cast<std::uint64_t>(start_of(test.region)),
                     .key = keys_[test.region],
                     .open_key = keys_[kOpen],
                     .open_address = reinterpret_cast<std::uint64_t>(start_of(kOpen))};
    Hello theirs;
    peer_.exchange(&ours, &theirs, sizeof ours);
    to_init(is_client_ ? kAllRights : test.responder_rights);
    to_ready_to_receive(test, theirs);
    to_ready_to_send(test, ours.psn);
    peer_.barrier();
    return theirs;
  }

  void to_init(unsigned rights) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qp_access_flags = rights & ~unsigned{IBV_ACCESS_LOCAL_WRITE};
    need(ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS), "INIT");
  }

  void to_ready_to_receive(const Case& test, const Hello& theirs) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_1024;
    attr.dest_qp_num = theirs.qpn;
    attr.rq_psn = theirs.psn;
    attr.max_dest_rd_atomic = test.responder_reads;
    attr.min_rnr_timer = 12;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    attr.ah_attr.grh.dgid = theirs.gid;
    attr.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
    attr.ah_attr.grh.hop_limit = 64;
    need(ibv_modify_qp(qp_, &attr,
                       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                           IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
         "RTR");
  }

  void to_ready_to_send(const Case& test, std::uint32_t psn) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = test.responder_is_gone ? 14 : 18;
    attr.retry_cnt = test.responder_is_gone ? 1 : 7;
    attr.rnr_retry = test.rnr_retry;
    attr.sq_psn = psn;
    attr.max_rd_atomic = 4;
    need(ibv_modify_qp(qp_, &attr,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC),
         "RTS");
  }

  void request(const Case& test, const Hello& theirs) {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(start_of(kOpen)), test.bytes, regions_[kOpen]->lkey};
    ibv_sge small{sge.addr, 8, sge.lkey};
    ibv_send_wr in_order{};
    in_order.wr_id = 2;
    in_order.sg_list = &small;
    in_order.num_sge = 1;
    in_order.opcode = kWrite;
    in_order.send_flags = IBV_SEND_SIGNALED;
    in_order.wr.rdma = {.remote_addr = theirs.open_address, .rkey = theirs.open_key};
    ibv_send_wr provoking = in_order;
    provoking.wr_id = 1;
    provoking.next = &in_order;
    provoking.sg_list = &sge;
    provoking.num_sge = test.bytes == 0 ? 0 : 1;
    provoking.opcode = test.opcode;
    const std::uint64_t address = theirs.address + static_cast<std::uint64_t>(test.offset);
    if (test.opcode == kAdd)
      provoking.wr.atomic = {.remote_addr = address, .compare_add = 1, .swap = 0, .rkey = theirs.key};
    else
      provoking.wr.rdma = {.remote_addr = address, .rkey = theirs.key};
    peer_.barrier();  // the server is ready, or gone
    ibv_send_wr* bad = nullptr;
    const int error = ibv_post_send(qp_, &provoking, &bad);
    if (error != 0 && error != EINVAL) fail("post_send: %s", std::strerror(error));
    const std::string statuses = error == EINVAL ? "-1" : completions(2, 30s);
    peer_.barrier();
    std::printf("provoke: %s qp=0x%x requester=%s\n", test.name, qp_->qp_num, statuses.c_str());
  }

  void respond(const Case& test) {
    if (test.receive_bytes != 0 && !test.ready_later) post_receive(test);
    const std::uint32_t qpn = qp_->qp_num;
    if (test.responder_is_gone) {
      need(ibv_destroy_qp(qp_), "destroy_qp");
      qp_ = nullptr;
    }
    peer_.barrier();
    if (test.ready_later) {
      std::this_thread::sleep_for(300ms);
      post_receive(test);
    }
    peer_.barrier();  // the client has its completions
    const std::string statuses = completions(test.receive_bytes != 0 ? 1 : 0, 2s);
    std::printf("provoke: %s qp=0x%x responder=%s state=%d events=%s\n", test.name, qpn, statuses.c_str(), state(),
                events().c_str());
  }

  void post_receive(const Case& test) {
    ibv_sge sge{reinterpret_cast<std::uint64_t>(start_of(kOpen)), test.receive_bytes,
                regions_[kOpen]->lkey ^ (test.receive_key_is_wrong ? 1u : 0u)};
    ibv_recv_wr wr{.wr_id = 3, .next = nullptr, .sg_list = &sge, .num_sge = 1};
    ibv_recv_wr* bad = nullptr;
    need(ibv_post_recv(qp_, &wr, &bad), "post_recv");
  }

  /// Statuses in their order: waits until there are `count`, or `patience` is over.
  std::string completions(int count, std::chrono::milliseconds patience) {
    std::string statuses;
    const auto end = std::chrono::steady_clock::now() + patience;
    for (int done = 0; done < count && std::chrono::steady_clock::now() < end;) {
      ibv_wc wc;
      if (ibv_poll_cq(cq_, 1, &wc) != 1) continue;
      statuses += (done++ == 0 ? "" : ",") + std::to_string(wc.status);
    }
    return statuses;
  }

  int state() {
    if (qp_ == nullptr) return -1;
    ibv_qp_attr attr;
    ibv_qp_init_attr init;
    need(ibv_query_qp(qp_, &attr, IBV_QP_STATE, &init), "query_qp");
    return attr.qp_state;
  }

  std::string events() {
    std::string kinds;
    for (ibv_async_event event; ibv_get_async_event(context_, &event) == 0; ibv_ack_async_event(&event))
      kinds += (kinds.empty() ? "" : ",") + std::to_string(event.event_type);
    return kinds;
  }

  verify::Peer peer_;
  const bool is_client_;
  const int gid_index_;
  ibv_context* context_ = nullptr;
  ibv_gid gid_{};
  ibv_pd* pd_ = nullptr;
  ibv_pd* other_pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  std::array<std::vector<std::uint8_t>, kRegions> memory_;
  std::array<ibv_mr*, kRegions> regions_{};
  std::array<std::uint32_t, kNoSuchIndex + 1> keys_{};
};

}  // namespace

/// The options of roci-verify; -p, -x and the server count.
int main(int argc, char** argv) {
  Provoker provoker(verify::parse_options(argc, argv));
  for (const Case& test : kCases) provoker.run(test);
  return 0;
}
