#include "tests/clients/verify_endpoint.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace verify {

namespace {

constexpr int kRemoteRights = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

ibv_qp_type type_of(Transport transport) {
  switch (transport) {
    case Transport::kUc:
      return IBV_QPT_UC;
    case Transport::kUd:
      return IBV_QPT_UD;
    default:
      return IBV_QPT_RC;
  }
}

void print(const char* format, va_list arguments) {
  std::fputs("verify: ", stderr);
  std::vfprintf(stderr, format, arguments);
  std::fputc('\n', stderr);
}

}  // namespace

void fail(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
  std::exit(2);
}

void complain(std::uint64_t* errors, const char* format, ...) {
  ++*errors;
  va_list arguments;
  va_start(arguments, format);
  print(format, arguments);
  va_end(arguments);
}

Peer::Peer(const Options& options) {
  const bool is_server = options.server.empty();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(options.port));
  if (is_server) {
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    const int one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    address.sin_addr.s_addr = htonl(INADDR_ANY);
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 || listen(listener, 1) != 0)
      fail("port %d: %s", options.port, std::strerror(errno));
    fd_ = accept(listener, nullptr, nullptr);
    close(listener);
  } else {
    hostent* host = gethostbyname(options.server.c_str());
    if (host == nullptr) fail("unknown host %s", options.server.c_str());
    std::memcpy(&address.sin_addr, host->h_addr_list[0], sizeof address.sin_addr);
    for (int attempt = 0; attempt < 100; ++attempt) {
      fd_ = socket(AF_INET, SOCK_STREAM, 0);
      if (::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) break;
      close(fd_);
      fd_ = -1;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  if (fd_ < 0) fail("no connection to the peer");
}

Peer::~Peer() { close(fd_); }

void Peer::exchange(const void* ours, void* theirs, std::size_t bytes) {
  if (::send(fd_, ours, bytes, MSG_NOSIGNAL) != static_cast<ssize_t>(bytes)) fail("the peer is gone");
  if (recv(fd_, theirs, bytes, MSG_WAITALL) != static_cast<ssize_t>(bytes)) fail("the peer is gone");
}

Endpoint::Endpoint(const Options& wanted, Peer& to) : options(wanted), peer(to) {
  slot_bytes_ = (options.max_bytes + 2 * kGuardBytes + 71) / 64 * 64;
  memory.resize(std::size_t{options.qps} * options.batch * (2 * slot_bytes_ + kGrhBytes));
  open_device();
  create_objects();
  connect();
}

Endpoint::~Endpoint() {
  for (ibv_mw* window : windows) ibv_dealloc_mw(window);
  for (ibv_qp* qp : qps) ibv_destroy_qp(qp);
  if (ah != nullptr) ibv_destroy_ah(ah);
  ibv_dereg_mr(mr);
  ibv_destroy_cq(cq);
  if (channel != nullptr) ibv_destroy_comp_channel(channel);
  ibv_dealloc_pd(pd);
  ibv_close_device(context);
}

void Endpoint::open_device() {
  int count = 0;
  ibv_device** devices = ibv_get_device_list(&count);
  if (devices == nullptr || count == 0) fail("no device");
  context = ibv_open_device(devices[0]);
  if (context == nullptr) fail("open: %s", std::strerror(errno));
  ibv_free_device_list(devices);
  ibv_port_attr port;
  if (ibv_query_port(context, 1, &port) != 0) fail("query_port: %s", std::strerror(errno));
  mtu_ = port.active_mtu;
  for (int code = IBV_MTU_256; code <= IBV_MTU_4096; ++code)
    if ((128u << code) == options.mtu_bytes) mtu_ = static_cast<ibv_mtu>(code);
  mtu_bytes = 128u << mtu_;
  gid_index_ = options.gid_index;
  for (int i = 0; i < port.gid_tbl_len && gid_index_ < 0; ++i) {
    static constexpr std::uint8_t kMapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
    if (ibv_query_gid(context, 1, i, &gid_) == 0 && std::memcmp(gid_.raw, kMapped, sizeof kMapped) == 0) gid_index_ = i;
  }
  if (ibv_query_gid(context, 1, gid_index_, &gid_) != 0) fail("no GID %d", gid_index_);
}

void Endpoint::create_objects() {
  pd = ibv_alloc_pd(context);
  if (pd == nullptr) fail("alloc_pd: %s", std::strerror(errno));
  if (options.use_events) channel = ibv_create_comp_channel(context);
  cq = ibv_create_cq(context, static_cast<int>(options.qps * options.batch * 2), nullptr, channel, 0);
  if (cq == nullptr) fail("create_cq: %s", std::strerror(errno));
  const int rights = options.window_type != 0 ? int{IBV_ACCESS_MW_BIND} : kRemoteRights;
  mr = ibv_reg_mr(pd, memory.data(), memory.size(), IBV_ACCESS_LOCAL_WRITE | rights);
  if (mr == nullptr) fail("reg_mr: %s", std::strerror(errno));
  for (std::uint32_t i = 0; i < options.qps; ++i) {
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq;
    // A datagram's header has an element of its own.
    const std::uint32_t receive_sges = options.max_sges + (is_datagram() ? 1 : 0);
    init.cap = {options.batch, options.batch, options.max_sges, receive_sges, options.inline_bytes};
    init.qp_type = type_of(options.transport);
    qps.push_back(ibv_create_qp(pd, &init));
    if (qps.back() == nullptr) fail("create_qp: %s", std::strerror(errno));
    if (options.window_type == 0) continue;
    windows.push_back(ibv_alloc_mw(pd, static_cast<ibv_mw_type>(options.window_type)));
    if (windows.back() == nullptr) fail("alloc_mw: %s", std::strerror(errno));
  }
}

void Endpoint::connect() {
  struct Hello {
    ibv_gid gid;
    std::uint64_t base;
    std::uint32_t key;
    std::uint32_t mtu;
  };
  const Hello ours{gid_, reinterpret_cast<std::uint64_t>(memory.data()), mr->rkey, mtu_bytes};
  Hello theirs;
  peer.exchange(&ours, &theirs, sizeof ours);
  remote_base = theirs.base;
  remote_keys.assign(options.qps, theirs.key);
  remote_gid_ = theirs.gid;
  for (std::uint32_t i = 0; i < options.qps; ++i) {
    // First PSNs near the wrap on every other QP.
    const std::uint32_t our_psn = i % 2 == 0 ? 0xfffff0 + i : 1000 * i;
    const std::uint32_t ours_of_qp[2] = {qps[i]->qp_num, our_psn & 0xffffff};
    std::uint32_t theirs_of_qp[2];
    peer.exchange(ours_of_qp, theirs_of_qp, sizeof ours_of_qp);
    remote_qpns.push_back(theirs_of_qp[0]);
    bring_up(qps[i], ours_of_qp[1], theirs_of_qp[0], theirs_of_qp[1]);
  }
  if (is_datagram()) {
    ibv_ah_attr attr = path();
    ah = ibv_create_ah(pd, &attr);
    if (ah == nullptr) fail("create_ah: %s", std::strerror(errno));
  }
  peer.barrier();
}

/// One of type 2 is invalidated first, if it is bound.
void Endpoint::bind_window(std::uint32_t qp) {
  ibv_mw* window = windows[qp];
  const ibv_mw_bind_info info{
      .mr = mr, .addr = reinterpret_cast<std::uint64_t>(memory.data()), .length = memory.size(), .mw_access_flags = 0};
  if (options.window_type == 1) {
    ibv_mw_bind bind{.wr_id = qp, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
    bind.bind_info.mw_access_flags = kRemoteRights;
    if (const int error = ibv_bind_mw(qps[qp], window, &bind); error != 0) fail("bind_mw: %s", std::strerror(error));
    return;
  }
  ibv_send_wr bind{};
  bind.opcode = IBV_WR_BIND_MW;
  bind.send_flags = IBV_SEND_SIGNALED;
  bind.bind_mw = {.mw = window, .rkey = ibv_inc_rkey(window->rkey), .bind_info = info};
  bind.bind_mw.bind_info.mw_access_flags = kRemoteRights | IBV_ACCESS_ZERO_BASED;
  ibv_send_wr invalidate{};
  invalidate.opcode = IBV_WR_LOCAL_INV;
  invalidate.invalidate_rkey = window->rkey;
  invalidate.next = &bind;
  const bool is_bound = windows_are_bound_;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qps[qp], is_bound ? &invalidate : &bind, &bad);
  if (error != 0) fail("binding by post_send: %s", std::strerror(error));
  window->rkey = bind.bind_mw.rkey;
}

void Endpoint::bind_windows() {
  for (std::uint32_t i = 0; i < options.qps; ++i) bind_window(i);
  for (std::size_t bound = 0; bound < options.qps;)
    for (const ibv_wc& wc : wait_for_completions()) {
      if (wc.status != IBV_WC_SUCCESS || wc.opcode != IBV_WC_BIND_MW) fail("bind: %s", ibv_wc_status_str(wc.status));
      ++bound;
    }
  windows_are_bound_ = true;
  for (std::uint32_t i = 0; i < options.qps; ++i)
    peer.exchange(&windows[i]->rkey, &remote_keys[i], sizeof remote_keys[i]);
}

ibv_ah_attr Endpoint::path() const {
  ibv_ah_attr attr{};
  attr.is_global = 1;
  attr.port_num = 1;
  attr.grh.dgid = remote_gid_;
  attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index_);
  attr.grh.hop_limit = 64;
  return attr;
}

void Endpoint::bring_up(ibv_qp* qp, std::uint32_t our_psn, std::uint32_t their_qpn, std::uint32_t their_psn) {
  const bool is_rc = options.transport == Transport::kRc;
  const auto move = [qp](ibv_qp_attr& attr, ibv_qp_state state, int mask, const char* name) {
    attr.qp_state = state;
    if (const int error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask); error != 0)
      fail("%s: %s", name, std::strerror(error));
  };
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qkey = kQkey;
  attr.qp_access_flags = kRemoteRights;
  move(attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_datagram() ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
       "INIT");
  attr.path_mtu = mtu_;
  attr.dest_qp_num = their_qpn;
  attr.rq_psn = their_psn;
  attr.max_dest_rd_atomic = 8;
  attr.min_rnr_timer = 12;
  attr.ah_attr = path();
  const int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  move(attr, IBV_QPS_RTR,
       (is_datagram() ? 0 : connected) | (is_rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0), "RTR");
  attr.timeout = static_cast<std::uint8_t>(options.timeout_code);
  attr.retry_cnt = 7;
  attr.rnr_retry = 7;
  attr.sq_psn = our_psn;
  attr.max_rd_atomic = 8;
  const int reliable = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  move(attr, IBV_QPS_RTS, IBV_QP_SQ_PSN | (is_rc ? reliable : 0), "RTS");
}

bool Endpoint::is_from_peer(const ibv_wc& wc, std::uint8_t* grh, std::uint32_t qp) const {
  ibv_wc copy = wc;
  ibv_ah_attr back{};
  return wc.src_qp == remote_qpns[qp] &&
         ibv_init_ah_from_wc(context, 1, &copy, reinterpret_cast<ibv_grh*>(grh), &back) == 0 &&
         std::memcmp(back.grh.dgid.raw, remote_gid_.raw, sizeof remote_gid_.raw) == 0 &&
         back.grh.sgid_index == gid_index_;
}

std::vector<ibv_wc> Endpoint::wait_for_completions() {
  std::vector<ibv_wc> done(64);
  const auto start = std::chrono::steady_clock::now();
  for (std::uint64_t spins = 0;; ++spins) {
    int count = ibv_poll_cq(cq, static_cast<int>(done.size()), done.data());
    if (count == 0 && options.use_events) {
      // An event may have been asked for and a completion may have come before that: look once more.
      ibv_req_notify_cq(cq, 0);
      count = ibv_poll_cq(cq, static_cast<int>(done.size()), done.data());
      if (count == 0) {
        ibv_cq* event_cq = nullptr;
        void* event_context = nullptr;
        if (ibv_get_cq_event(channel, &event_cq, &event_context) != 0) fail("get_cq_event: %s", std::strerror(errno));
        ibv_ack_cq_events(event_cq, 1);
        continue;
      }
    }
    if (count < 0) fail("poll_cq failed");
    done.resize(static_cast<std::size_t>(count));
    if (count > 0) return done;
    done.resize(64);
    if (spins % 1024 == 0 &&
        std::chrono::steady_clock::now() - start > std::chrono::seconds(options.seconds_without_progress))
      fail("no completion for %d s", options.seconds_without_progress);
  }
}

}  // namespace verify
