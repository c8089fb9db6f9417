// A client whose registered memory goes away while it is in use: each case must end in an error completion, and the
// process must live on. Two QPs of one process, through the device's loopback.
#include <infiniband/verbs.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <csetjmp>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

namespace {

constexpr std::size_t kBytes = 1 << 20;

[[noreturn]] void fail(const char* what) {
  std::fprintf(stderr, "gone: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

struct Memory {
  explicit Memory(bool of_a_file) {
    if (of_a_file) {
      char name[] = "/dev/shm/roci-gone-XXXXXX";
      fd = mkstemp(name);
      unlink(name);
      if (ftruncate(fd, kBytes) != 0) fail("ftruncate");
    }
    data = static_cast<std::uint8_t*>(
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, of_a_file ? MAP_SHARED : MAP_PRIVATE | MAP_ANONYMOUS, fd, 0));
    if (data == MAP_FAILED) fail("mmap");
  }
  /// The second half is no more.
  void take_away() {
    const int failed = fd >= 0 ? ftruncate(fd, kBytes / 2) : munmap(data + kBytes / 2, kBytes / 2);
    if (failed != 0) fail("take away");
  }
  std::uint8_t* data;
  int fd = -1;
};

struct Device {
  Device() {
    int count = 0;
    ibv_device** list = ibv_get_device_list(&count);
    context = count > 0 ? ibv_open_device(list[0]) : nullptr;
    if (context == nullptr) fail("open");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 64, nullptr, nullptr, 0);
    if (ibv_query_gid(context, 1, 0, &gid) != 0) fail("gid");
  }
  ibv_context* context;
  ibv_pd* pd;
  ibv_cq* cq;
  ibv_gid gid;
};

ibv_qp* make_qp(Device& device) {
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = device.cq;
  init.cap = {8, 8, 1, 1, 0};
  init.qp_type = IBV_QPT_RC;
  ibv_qp* qp = ibv_create_qp(device.pd, &init);
  if (qp == nullptr) fail("create_qp");
  return qp;
}

void connect(Device& device, ibv_qp* qp, std::uint32_t peer) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = 1;
  attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) fail("INIT");
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = IBV_MTU_4096;
  attr.dest_qp_num = peer;
  attr.max_dest_rd_atomic = attr.max_rd_atomic = 4;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = device.gid;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    fail("RTR");
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = 14;
  attr.retry_cnt = attr.rnr_retry = 7;
  if (ibv_modify_qp(qp, &attr,
                    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                        IBV_QP_MAX_QP_RD_ATOMIC) != 0)
    fail("RTS");
}

/// One operation of the whole of both memories, of which one loses its second half after registration.
void run_case(Device& device, ibv_wr_opcode opcode, bool local, bool of_a_file, ibv_wc_status wanted) {
  Memory ours(of_a_file && local);
  Memory theirs(of_a_file && !local);
  constexpr int kAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  ibv_mr* our_mr = ibv_reg_mr(device.pd, ours.data, kBytes, kAccess);
  ibv_mr* their_mr = ibv_reg_mr(device.pd, theirs.data, kBytes, kAccess);
  ibv_qp* a = make_qp(device);
  ibv_qp* b = make_qp(device);
  connect(device, a, b->qp_num);
  connect(device, b, a->qp_num);
  (local ? ours : theirs).take_away();
  ibv_sge their_sge{reinterpret_cast<std::uint64_t>(theirs.data), kBytes, their_mr->lkey};
  ibv_recv_wr recv{2, nullptr, &their_sge, 1};
  ibv_recv_wr* bad_recv = nullptr;
  if (opcode == IBV_WR_SEND && ibv_post_recv(b, &recv, &bad_recv) != 0) fail("post_recv");
  const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  const std::size_t offset = atomic ? kBytes / 2 : 0;
  ibv_sge sge{reinterpret_cast<std::uint64_t>(ours.data) + offset, atomic ? 8u : std::uint32_t{kBytes}, our_mr->lkey};
  ibv_send_wr wr{};
  wr.wr_id = 1;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = opcode;
  if (atomic) {
    wr.wr.atomic = {reinterpret_cast<std::uint64_t>(theirs.data) + offset, 1, 0, their_mr->rkey};
  } else {
    wr.wr.rdma = {reinterpret_cast<std::uint64_t>(theirs.data), their_mr->rkey};
  }
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(a, &wr, &bad) != 0) fail("post_send");
  ibv_wc wc{};
  do {
    while (ibv_poll_cq(device.cq, 1, &wc) == 0) {
    }
  } while (wc.wr_id != 1);
  if (wc.status != wanted) {
    std::fprintf(stderr, "gone: opcode %d, %s, %s: %s instead of %s\n", opcode, local ? "local" : "remote",
                 of_a_file ? "file cut" : "unmapped", ibv_wc_status_str(wc.status), ibv_wc_status_str(wanted));
    std::exit(1);
  }
  ibv_destroy_qp(a);
  ibv_destroy_qp(b);
  while (ibv_poll_cq(device.cq, 1, &wc) > 0) {
  }
  ibv_dereg_mr(our_mr);
  ibv_dereg_mr(their_mr);
}

sigjmp_buf back;
void jump_back(int) { siglongjmp(back, 1); }

/// The program's own faults, with a handler that it installed after the device was opened.
void own_fault() {
  if (std::signal(SIGSEGV, jump_back) == SIG_ERR) fail("signal");
  Memory memory(false);
  memory.take_away();
  if (sigsetjmp(back, 1) == 0) {
    *static_cast<volatile std::uint8_t*>(memory.data + kBytes / 2) = 1;
    fail("a fault that was none");
  }
}

}  // namespace

int main() {
  Device device;
  int cases = 0;
  for (int round = 0; round < 2; ++round) {
    for (const bool of_a_file : {false, true}) {
      run_case(device, IBV_WR_RDMA_WRITE, true, of_a_file, IBV_WC_LOC_PROT_ERR);
      run_case(device, IBV_WR_RDMA_WRITE, false, of_a_file, IBV_WC_REM_ACCESS_ERR);
      run_case(device, IBV_WR_RDMA_READ, true, of_a_file, IBV_WC_LOC_PROT_ERR);
      run_case(device, IBV_WR_RDMA_READ, false, of_a_file, IBV_WC_REM_ACCESS_ERR);
      run_case(device, IBV_WR_SEND, true, of_a_file, IBV_WC_LOC_PROT_ERR);
      run_case(device, IBV_WR_SEND, false, of_a_file, IBV_WC_REM_OP_ERR);
      run_case(device, IBV_WR_ATOMIC_FETCH_AND_ADD, true, of_a_file, IBV_WC_LOC_PROT_ERR);
      run_case(device, IBV_WR_ATOMIC_FETCH_AND_ADD, false, of_a_file, IBV_WC_REM_ACCESS_ERR);
      cases += 8;
    }
    // Then all of it again, with a handler of the program's own in place.
    own_fault();
  }
  own_fault();
  std::printf("gone: %d cases, all with an error completion\n", cases);
  return 0;
}
