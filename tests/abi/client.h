// Verbs as a program sees them: the public headers, and objects that destroy themselves.
#pragma once

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

namespace roci::abi {

/// Destroys and expects that the call allows it.
template <auto kDestroy>
struct Destroy {
  template <class Object>
  void operator()(Object* object) const {
    EXPECT_EQ(kDestroy(object), 0);
  }
};

inline int destroy_cq_ex(ibv_cq_ex* cq) { return ibv_destroy_cq(ibv_cq_ex_to_cq(cq)); }

using Context = std::unique_ptr<ibv_context, Destroy<ibv_close_device>>;
using Pd = std::unique_ptr<ibv_pd, Destroy<ibv_dealloc_pd>>;
using Mr = std::unique_ptr<ibv_mr, Destroy<ibv_dereg_mr>>;
using Mw = std::unique_ptr<ibv_mw, Destroy<ibv_dealloc_mw>>;
using Channel = std::unique_ptr<ibv_comp_channel, Destroy<ibv_destroy_comp_channel>>;
using Cq = std::unique_ptr<ibv_cq, Destroy<ibv_destroy_cq>>;
using CqEx = std::unique_ptr<ibv_cq_ex, Destroy<destroy_cq_ex>>;
using Srq = std::unique_ptr<ibv_srq, Destroy<ibv_destroy_srq>>;
using Qp = std::unique_ptr<ibv_qp, Destroy<ibv_destroy_qp>>;
using Ah = std::unique_ptr<ibv_ah, Destroy<ibv_destroy_ah>>;

/// The errno of a creating call, as in error_of<Cq>([&] { return ibv_create_cq(...); }). 0 if it made something.
template <class Owner, class Call>
int error_of(Call call) {
  errno = 0;
  const Owner made(call());
  return made == nullptr ? errno : 0;
}

/// The errno of a call that answers -1.
template <class Call>
int error_of_minus_1(Call call) {
  errno = 0;
  return call() == -1 ? errno : 0;
}

/// The first device of the list. Opening it joins a segment that only this process is on, unless ROCI_LINK is set.
Context open_device();

/// Polls until `count` completions are there. Gives up after a long while: then there are fewer.
std::vector<ibv_wc> wait_for_completions(ibv_cq* cq, std::size_t count);

/// The masks with which programs move an RC QP.
inline constexpr int kToInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kToRtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kToRts =
    IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

ibv_recv_wr receive_request(std::uint64_t wr_id, ibv_sge* sges, int count, ibv_recv_wr* next = nullptr);
/// A signalled SEND.
ibv_send_wr send_request(std::uint64_t wr_id, ibv_sge* sges, int count, ibv_send_wr* next = nullptr);

/// A context with what most tests need of it.
class Client : public testing::Test {
 protected:
  void SetUp() override;

  ibv_context* context() { return context_.get(); }
  ibv_pd* pd() { return pd_.get(); }
  const ibv_device_attr& limits() const { return limits_; }
  /// The port's first IPv4 address.
  std::uint8_t gid_index() const { return gid_index_; }
  const ibv_gid& gid() const { return gid_; }

  Cq make_cq(int entries = 16, ibv_comp_channel* channel = nullptr);
  Mr make_mr(void* memory, std::size_t bytes,
             int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                          IBV_ACCESS_REMOTE_ATOMIC);
  /// What a small RC QP is created with; both of its CQs are `cq`.
  static ibv_qp_init_attr small_rc(ibv_cq* cq);
  Qp make_qp(ibv_qp_init_attr attr);

  /// Attributes good for each step of an RC QP's way to RTS, whose peer is `dest_qpn` of the same port.
  ibv_qp_attr good_attributes(ibv_qp_state state, std::uint32_t dest_qpn = 1) const;
  /// Takes an RC QP from RESET as far as `state`.
  void bring_up(ibv_qp* qp, ibv_qp_state state, std::uint32_t dest_qpn = 1) const;
  static int move_to(ibv_qp* qp, ibv_qp_state state);
  static ibv_qp_state state_of(ibv_qp* qp);

 private:
  Context context_;
  Pd pd_;
  ibv_device_attr limits_{};
  std::uint8_t gid_index_ = 0;
  ibv_gid gid_{};
};

/// Two connected QPs of one process and the memory that they move.
class Connected : public Client {
 protected:
  void SetUp() override;

  struct Side {
    Cq cq;
    Qp qp;
    std::vector<std::uint8_t> memory;
    Mr mr;

    ibv_sge sge(std::uint32_t bytes, std::uint32_t offset = 0) const {
      return {.addr = reinterpret_cast<std::uintptr_t>(memory.data()) + offset, .length = bytes, .lkey = mr->lkey};
    }
    std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(memory.data()); }
    int post(ibv_send_wr& wr) const {
      ibv_send_wr* bad = nullptr;
      return ibv_post_send(qp.get(), &wr, &bad);
    }
    int post(ibv_recv_wr& wr) const {
      ibv_recv_wr* bad = nullptr;
      return ibv_post_recv(qp.get(), &wr, &bad);
    }
    /// The status of the next completion; IBV_WC_GENERAL_ERR if none comes.
    ibv_wc_status next_status() const;
  };

  static constexpr std::size_t kMemoryBytes = 4096;

  Side local;
  Side remote;
};

}  // namespace roci::abi
