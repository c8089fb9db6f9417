// A client that checks every byte of every operation, which perftest does not.
//
// Both ends draw the same plan from the seed: for each operation of each QP its kind, size, elements and flags. A round
// is a batch of operations: both prepare memory, meet, one end (or both, with -b) posts and waits, they meet again, and
// each checks all that it can see: data, guards, completions, results of atomics.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "tests/clients/verify_endpoint.h"

namespace verify {
namespace {

struct Plan {
  Operation operation;
  std::uint32_t bytes;
  std::vector<std::uint32_t> parts;  ///< sizes of the elements
  bool is_inline;
  bool is_signalled;
  std::uint32_t imm;
};

/// Byte `offset` of the data of an operation: another for each seed, direction, QP and operation, so that stale,
/// shifted and repeated data show.
std::uint8_t pattern(std::uint64_t key, std::size_t offset) {
  std::uint64_t x = key + (offset / 8) * 0x9e37'79b9'7f4a'7c15;
  x = (x ^ x >> 30) * 0xbf58'476d'1ce4'e5b9;
  x = (x ^ x >> 27) * 0x94d0'49bb'1331'11eb;
  return static_cast<std::uint8_t>((x ^ x >> 31) >> (offset % 8 * 8));
}

constexpr std::uint8_t kStale = 0xa5;
constexpr std::uint8_t kGuard = 0x5a;

bool is_atomic(Operation operation) { return operation == kCompareSwap || operation == kFetchAdd; }
bool takes_receive(Operation operation) {
  return operation == kSend || operation == kSendImm || operation == kWriteImm;
}
bool has_imm(Operation operation) { return operation == kSendImm || operation == kWriteImm; }

class Run {
 public:
  Run(const Options& options, Endpoint& end) : options_(options), end_(end), is_client_(!options.server.empty()) {}

  int run() {
    const auto start = std::chrono::steady_clock::now();
    for (std::uint32_t done = 0; goes_on(done, start); done += options_.batch) {
      const bool by_time = options_.run_seconds > 0;
      round(done, by_time ? options_.batch : std::min(options_.batch, options_.operations - done));
      if (errors_ > 20) fail("giving up after %llu errors", static_cast<unsigned long long>(errors_));
    }
    std::printf("verify: %llu operations, %llu bytes checked, %llu errors\n",
                static_cast<unsigned long long>(operations_), static_cast<unsigned long long>(bytes_checked_),
                static_cast<unsigned long long>(errors_));
    return errors_ == 0 ? 0 : 1;
  }

 private:
  bool goes_on(std::uint32_t done, std::chrono::steady_clock::time_point start) {
    if (options_.run_seconds == 0) return done < options_.operations;
    const char ours = std::chrono::steady_clock::now() - start < std::chrono::seconds(options_.run_seconds) ? 1 : 0;
    char theirs = 0;
    end_.peer.exchange(&ours, &theirs, 1);
    return ours == 1 && theirs == 1;
  }

  std::uint64_t key_of(bool from_client, std::uint32_t qp, std::uint32_t operation) const {
    return options_.seed * 0x1'0000'0001 + (std::uint64_t{from_client} << 60) + (std::uint64_t{qp} << 40) +
           operation * 0x10'0003ull;
  }

  Plan plan(bool from_client, std::uint32_t qp, std::uint32_t operation) const {
    std::mt19937_64 random(key_of(from_client, qp, operation));
    Plan plan{};
    do plan.operation = static_cast<Operation>(random() % kOperations);
    while ((options_.enabled >> plan.operation & 1) == 0);
    // Without acknowledgements only a completion at the other end tells that all before it has arrived.
    if (options_.transport == Transport::kUc && is_last_of_round(operation)) plan.operation = kWriteImm;
    plan.bytes = is_atomic(plan.operation) ? 8 : draw_bytes(random);
    plan.is_inline = plan.operation != kRead && !is_atomic(plan.operation) && plan.bytes <= options_.inline_bytes &&
                     random() % 2 == 0;
    plan.is_signalled = random() % 4 != 0;
    plan.imm = static_cast<std::uint32_t>(random());
    std::uint32_t left = plan.bytes;
    for (std::uint32_t parts = 1; parts < options_.max_sges && !is_atomic(plan.operation); ++parts) {
      const auto part = static_cast<std::uint32_t>(random() % (left + 1));
      plan.parts.push_back(part);
      left -= part;
      if (random() % 3 == 0) break;
    }
    plan.parts.push_back(left);
    return plan;
  }

  bool is_last_of_round(std::uint32_t operation) const {
    return operation % options_.batch == options_.batch - 1 || operation == options_.operations - 1;
  }

  std::uint32_t draw_bytes(std::mt19937_64& random) const {
    if (options_.fixed_bytes != UINT32_MAX) return options_.fixed_bytes;
    const std::uint32_t mtu = end_.mtu_bytes;
    // A datagram is one packet.
    const std::uint32_t max_bytes = end_.is_datagram() ? std::min(options_.max_bytes, mtu) : options_.max_bytes;
    const std::array<std::uint32_t, 8> edges{0, 1, 2, 3, mtu - 1, mtu, mtu + 1, 4 * mtu};
    const std::uint32_t bytes =
        random() % 3 == 0 ? edges[random() % edges.size()] : static_cast<std::uint32_t>(random() % (max_bytes + 1));
    return std::min(bytes, max_bytes);
  }

  bool initiates(bool client) const { return client || options_.both_directions; }

  void round(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t qp = 0; qp < options_.qps; ++qp)
      for (std::uint32_t slot = 0; slot < count; ++slot) {
        prepare_area(0, qp, slot);
        prepare_area(1, qp, slot);
        if (initiates(is_client_)) prepare_source(qp, slot, first + slot);
        if (initiates(!is_client_)) prepare_target(qp, slot, first + slot);
      }
    if (options_.window_type != 0) end_.bind_windows();
    if (options_.receive_after_ms == 0) post_receives(first, count);
    end_.peer.barrier();
    if (initiates(is_client_)) post_all(first, count);
    if (options_.receive_after_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(options_.receive_after_ms));
      post_receives(first, count);
    }
    wait_for_all(first, count);
    end_.peer.barrier();
    for (std::uint32_t qp = 0; qp < options_.qps; ++qp)
      for (std::uint32_t slot = 0; slot < count; ++slot) {
        if (initiates(is_client_)) check_source(qp, slot, first + slot);
        if (initiates(!is_client_)) check_target(qp, slot, first + slot);
      }
    end_.peer.barrier();
  }

  void prepare_area(std::uint32_t area, std::uint32_t qp, std::uint32_t slot) {
    std::memset(end_.data(area, qp, slot) - kGuardBytes, kGuard, end_.slot_bytes());
  }

  void fill(std::uint8_t* data, std::uint64_t key, std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; ++i) data[i] = pattern(key, i);
  }

  void prepare_source(std::uint32_t qp, std::uint32_t slot, std::uint32_t operation) {
    const Plan plan = this->plan(is_client_, qp, operation);
    std::uint8_t* data = end_.data(0, qp, slot);
    if (plan.operation == kRead || is_atomic(plan.operation))
      std::memset(data, kStale, plan.bytes);
    else
      fill(data, key_of(is_client_, qp, operation), plan.bytes);
  }

  void prepare_target(std::uint32_t qp, std::uint32_t slot, std::uint32_t operation) {
    const Plan plan = this->plan(!is_client_, qp, operation);
    std::uint8_t* data = end_.data(1, qp, slot);
    if (plan.operation == kRead || is_atomic(plan.operation))
      fill(data, key_of(!is_client_, qp, operation), plan.bytes);
    else
      std::memset(data, kStale, plan.bytes);
  }

  void post_receives(std::uint32_t first, std::uint32_t count) {
    if (!initiates(!is_client_)) return;
    for (std::uint32_t qp = 0; qp < options_.qps; ++qp)
      for (std::uint32_t slot = 0; slot < count; ++slot) {
        const Plan plan = this->plan(!is_client_, qp, first + slot);
        if (takes_receive(plan.operation)) post_receive(qp, slot, first + slot, plan);
      }
  }

  std::vector<ibv_sge> elements(std::uint8_t* data, const Plan& plan) {
    std::vector<ibv_sge> sges;
    for (const std::uint32_t part : plan.parts) {
      sges.push_back({.addr = reinterpret_cast<std::uint64_t>(data), .length = part, .lkey = end_.mr->lkey});
      data += part;
    }
    return sges;
  }

  void post_receive(std::uint32_t qp, std::uint32_t slot, std::uint32_t operation, const Plan& plan) {
    // The elements of the receive are split in another way than those of the send.
    Plan reversed = plan;
    std::reverse(reversed.parts.begin(), reversed.parts.end());
    std::vector<ibv_sge> sges = elements(end_.data(1, qp, slot), reversed);
    if (end_.is_datagram())
      sges.insert(
          sges.begin(),
          {.addr = reinterpret_cast<std::uint64_t>(end_.grh(qp, slot)), .length = kGrhBytes, .lkey = end_.mr->lkey});
    ibv_recv_wr wr{.wr_id = operation,
                   .next = nullptr,
                   .sg_list = sges.data(),
                   .num_sge = plan.operation == kWriteImm ? 0 : static_cast<int>(sges.size())};
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(end_.qps[qp], &wr, &bad); error != 0)
      fail("post_recv: %s", std::strerror(error));
  }

  ibv_send_wr make_request(std::uint32_t qp, std::uint32_t slot, std::uint32_t operation, const Plan& plan,
                           std::vector<ibv_sge>& sges, bool signalled) {
    static constexpr ibv_wr_opcode kOpcodes[kOperations] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE,          IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
    ibv_send_wr wr{};
    wr.wr_id = operation;
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    wr.opcode = kOpcodes[plan.operation];
    wr.send_flags = (signalled ? unsigned{IBV_SEND_SIGNALED} : 0u) | (plan.is_inline ? unsigned{IBV_SEND_INLINE} : 0u);
    wr.imm_data = plan.imm;
    if (end_.is_datagram()) {
      wr.wr.ud.ah = end_.ah;
      wr.wr.ud.remote_qpn = end_.remote_qpns[qp];
      wr.wr.ud.remote_qkey = kQkey;
    } else if (is_atomic(plan.operation)) {
      wr.wr.atomic.remote_addr = end_.remote_address(qp, slot);
      wr.wr.atomic.rkey = end_.remote_keys[qp];
      wr.wr.atomic.compare_add = compare_add(qp, operation, plan);
      wr.wr.atomic.swap = plan.imm;
    } else {
      wr.wr.rdma.remote_addr = end_.remote_address(qp, slot);
      wr.wr.rdma.rkey = end_.remote_keys[qp];
    }
    return wr;
  }

  std::uint64_t word(std::uint64_t key) const {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < 8; ++i) value |= std::uint64_t{pattern(key, i)} << (8 * i);
    return value;
  }
  /// Every other compare-and-swap compares with what is there.
  std::uint64_t compare_add(std::uint32_t qp, std::uint32_t operation, const Plan& plan, bool from_client) const {
    const std::uint64_t original = word(key_of(from_client, qp, operation));
    if (plan.operation == kCompareSwap) return plan.imm % 2 == 0 ? original : original + 1;
    return plan.imm * 0x1'0000'0003ull;
  }
  std::uint64_t compare_add(std::uint32_t qp, std::uint32_t operation, const Plan& plan) const {
    return compare_add(qp, operation, plan, is_client_);
  }

  void post_all(std::uint32_t first, std::uint32_t count) {
    for (std::uint32_t qp = 0; qp < options_.qps; ++qp)
      for (std::uint32_t slot = 0; slot < count; slot += options_.chain)
        post_chain(qp, first, slot, std::min(options_.chain, count - slot), count);
  }

  void post_chain(std::uint32_t qp, std::uint32_t first, std::uint32_t slot, std::uint32_t length,
                  std::uint32_t count) {
    std::vector<std::vector<ibv_sge>> sges(length);
    std::vector<ibv_send_wr> requests(length);
    for (std::uint32_t i = 0; i < length; ++i) {
      const Plan plan = this->plan(is_client_, qp, first + slot + i);
      sges[i] = elements(end_.data(0, qp, slot + i), plan);
      // The last of a batch tells that all before it are done.
      const bool signalled = plan.is_signalled || slot + i + 1 == count;
      requests[i] = make_request(qp, slot + i, first + slot + i, plan, sges[i], signalled);
      if (i > 0) requests[i - 1].next = &requests[i];
    }
    ibv_send_wr* bad = nullptr;
    if (const int error = ibv_post_send(end_.qps[qp], requests.data(), &bad); error != 0)
      fail("post_send: %s", std::strerror(error));
  }

  /// What completions a QP must give in this round, in order.
  struct Expected {
    std::vector<std::uint32_t> sends;
    std::vector<std::uint32_t> receives;
    std::size_t next_send = 0;
    std::size_t next_receive = 0;
  };

  void wait_for_all(std::uint32_t first, std::uint32_t count) {
    std::vector<Expected> expected(options_.qps);
    std::size_t missing = 0;
    for (std::uint32_t qp = 0; qp < options_.qps; ++qp)
      for (std::uint32_t slot = 0; slot < count; ++slot) {
        const std::uint32_t operation = first + slot;
        if (initiates(is_client_) && (plan(is_client_, qp, operation).is_signalled || slot + 1 == count))
          expected[qp].sends.push_back(operation);
        if (initiates(!is_client_) && takes_receive(plan(!is_client_, qp, operation).operation))
          expected[qp].receives.push_back(operation);
      }
    for (const Expected& of_qp : expected) missing += of_qp.sends.size() + of_qp.receives.size();
    while (missing > 0)
      for (const ibv_wc& wc : end_.wait_for_completions()) {
        check_completion(wc, expected);
        --missing;
      }
    operations_ += std::uint64_t{count} * options_.qps;
  }

  void check_completion(const ibv_wc& wc, std::vector<Expected>& expected) {
    if (wc.status != IBV_WC_SUCCESS)
      fail("completion of operation %llu: %s", static_cast<unsigned long long>(wc.wr_id), ibv_wc_status_str(wc.status));
    std::uint32_t qp = 0;
    while (qp < options_.qps && end_.qps[qp]->qp_num != wc.qp_num) ++qp;
    if (qp == options_.qps) fail("completion of QP 0x%x, which is none of ours", wc.qp_num);
    const bool is_receive = (wc.opcode & IBV_WC_RECV) != 0;
    Expected& of_qp = expected[qp];
    std::vector<std::uint32_t>& list = is_receive ? of_qp.receives : of_qp.sends;
    std::size_t& next = is_receive ? of_qp.next_receive : of_qp.next_send;
    if (next >= list.size()) fail("one completion too many on QP %u", qp);
    if (list[next] != wc.wr_id)
      return complain(&errors_, "QP %u: completion of %llu where %u was due", qp,
                      static_cast<unsigned long long>(wc.wr_id), list[next]);
    const Plan plan = this->plan(is_receive ? !is_client_ : is_client_, qp, list[next]);
    ++next;
    check_fields(wc, plan, is_receive, qp);
  }

  void check_fields(const ibv_wc& wc, const Plan& plan, bool is_receive, std::uint32_t qp) {
    static constexpr ibv_wc_opcode kOpcodes[kOperations] = {IBV_WC_SEND,       IBV_WC_SEND,      IBV_WC_RDMA_WRITE,
                                                            IBV_WC_RDMA_WRITE, IBV_WC_RDMA_READ, IBV_WC_COMP_SWAP,
                                                            IBV_WC_FETCH_ADD};
    ibv_wc_opcode opcode = kOpcodes[plan.operation];
    if (is_receive) opcode = plan.operation == kWriteImm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    if (wc.opcode != opcode) complain(&errors_, "QP %u: opcode %d instead of %d", qp, wc.opcode, opcode);
    if (!is_receive) return;
    const auto bytes = static_cast<std::uint32_t>(plan.bytes + (end_.is_datagram() ? kGrhBytes : 0));
    if (wc.byte_len != bytes) complain(&errors_, "QP %u: byte_len %u instead of %u", qp, wc.byte_len, bytes);
    if (!end_.is_datagram()) return check_immediate(wc, plan, qp);
    std::uint8_t* grh = end_.grh(qp, static_cast<std::uint32_t>(wc.wr_id) % options_.batch);
    if ((wc.wc_flags & IBV_WC_GRH) == 0 || !end_.is_from_peer(wc, grh, qp))
      complain(&errors_, "QP %u: not from the peer, or no header that says so", qp);
    check_immediate(wc, plan, qp);
  }

  void check_immediate(const ibv_wc& wc, const Plan& plan, std::uint32_t qp) {
    const bool told_imm = (wc.wc_flags & IBV_WC_WITH_IMM) != 0;
    if (told_imm != has_imm(plan.operation) || (told_imm && wc.imm_data != plan.imm))
      complain(&errors_, "QP %u: immediate 0x%x (%d) instead of 0x%x", qp, wc.imm_data, told_imm, plan.imm);
  }

  void check_source(std::uint32_t qp, std::uint32_t slot, std::uint32_t operation) {
    const Plan plan = this->plan(is_client_, qp, operation);
    // A READ brings what the target had prepared; an atomic the value before it.
    check_bytes("source", end_.data(0, qp, slot), key_of(is_client_, qp, operation), plan.bytes, qp, operation);
  }

  void check_target(std::uint32_t qp, std::uint32_t slot, std::uint32_t operation) {
    const Plan plan = this->plan(!is_client_, qp, operation);
    std::uint8_t* data = end_.data(1, qp, slot);
    const std::uint64_t key = key_of(!is_client_, qp, operation);
    if (!is_atomic(plan.operation)) return check_bytes("target", data, key, plan.bytes, qp, operation);
    const std::uint64_t original = word(key);
    const std::uint64_t argument = compare_add(qp, operation, plan, !is_client_);
    const std::uint64_t wanted = plan.operation == kFetchAdd ? original + argument
                                 : argument == original      ? plan.imm
                                                             : original;
    std::uint64_t value;
    std::memcpy(&value, data, sizeof value);
    if (value != wanted)
      complain(&errors_, "QP %u operation %u: atomic left 0x%llx instead of 0x%llx", qp, operation,
               static_cast<unsigned long long>(value), static_cast<unsigned long long>(wanted));
    bytes_checked_ += sizeof value;
    check_guards("target", data, sizeof value, qp, operation);
  }

  void check_bytes(const char* what, const std::uint8_t* data, std::uint64_t key, std::size_t bytes, std::uint32_t qp,
                   std::uint32_t operation) {
    for (std::size_t i = 0; i < bytes; ++i) {
      if (data[i] == pattern(key, i)) continue;
      complain(&errors_, "QP %u operation %u: %s byte %zu of %zu is 0x%02x instead of 0x%02x", qp, operation, what, i,
               bytes, data[i], pattern(key, i));
      break;
    }
    bytes_checked_ += bytes;
    check_guards(what, data, bytes, qp, operation);
  }

  void check_guards(const char* what, const std::uint8_t* data, std::size_t bytes, std::uint32_t qp,
                    std::uint32_t operation) {
    const std::uint8_t* slot = data - kGuardBytes;
    for (std::size_t i = 0; i < end_.slot_bytes(); ++i) {
      if (i == kGuardBytes) i += bytes;
      if (i >= end_.slot_bytes() || slot[i] == kGuard) continue;
      return complain(&errors_, "QP %u operation %u: %s guard byte %zd is 0x%02x", qp, operation, what,
                      static_cast<ssize_t>(i) - static_cast<ssize_t>(kGuardBytes), slot[i]);
    }
  }

  const Options options_;
  Endpoint& end_;
  const bool is_client_;
  std::uint64_t operations_ = 0;
  std::uint64_t bytes_checked_ = 0;
  std::uint64_t errors_ = 0;
};

}  // namespace
}  // namespace verify

/// Several jobs, apart by a "+", run at once in one process: one end of a cable that has several peers.
int main(int argc, char** argv) {
  std::vector<verify::Options> jobs;
  for (int first = 1; first <= argc;) {
    int last = first;
    while (last < argc && std::strcmp(argv[last], "+") != 0) ++last;
    std::vector<char*> arguments{argv[0]};
    arguments.insert(arguments.end(), argv + first, argv + last);
    arguments.push_back(nullptr);
    jobs.push_back(verify::parse_options(static_cast<int>(arguments.size()) - 1, arguments.data()));
    first = last + 1;
  }
  std::vector<int> results(jobs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < jobs.size(); ++i)
    threads.emplace_back([&, i] {
      verify::Peer peer(jobs[i]);
      verify::Endpoint end(jobs[i], peer);
      results[i] = verify::Run(jobs[i], end).run();
      std::this_thread::sleep_for(std::chrono::milliseconds(jobs[i].linger_ms));
    });
  for (std::thread& thread : threads) thread.join();
  return *std::max_element(results.begin(), results.end());
}
