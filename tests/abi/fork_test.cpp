#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/abi/client.h"

namespace roci::abi {
namespace {

/// Runs `body` in a child and gives the line at which it saw something wrong; 0 if nothing, or the signal, negative.
template <class Body>
int in_child(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

class ShimFork : public Connected {
 protected:
  void expect_traffic() {
    ibv_sge sge = local.sge(8);
    ibv_send_wr wr = send_request(1, &sge, 1);
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.wr.rdma = {.remote_addr = remote.address(), .rkey = remote.mr->rkey};
    ASSERT_EQ(local.post(wr), 0);
    EXPECT_EQ(local.next_status(), IBV_WC_SUCCESS);
  }
};

TEST_F(ShimFork, child__calls_fail_and_the_parent_goes_on) {
  expect_traffic();
  const Channel channel(ibv_create_comp_channel(context()));
  const int wrong = in_child([&] {
    int check = 0;
    const auto fails = [&check](int error) {
      ++check;
      return error == EIO;
    };
    ibv_qp_attr attr = good_attributes(IBV_QPS_INIT);
    ibv_device_attr device{};
    ibv_port_attr port{};
    ibv_gid gid{};
    ibv_send_wr send = send_request(1, nullptr, 0);
    ibv_recv_wr receive = receive_request(1, nullptr, 0);
    ibv_wc wc{};
    ibv_async_event event{};
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (!fails(error_of<Pd>([&] { return ibv_alloc_pd(context()); }))) return check;
    if (!fails(error_of<Cq>([&] { return ibv_create_cq(context(), 4, nullptr, nullptr, 0); }))) return check;
    if (!fails(error_of<Channel>([&] { return ibv_create_comp_channel(context()); }))) return check;
    if (!fails(error_of<Mr>([&] { return ibv_reg_mr(pd(), &wc, sizeof wc, 0); }))) return check;
    if (!fails(ibv_query_device(context(), &device))) return check;
    if (!fails(ibv_query_port(context(), 1, &port))) return check;
    if (!fails(error_of_minus_1([&] { return ibv_query_gid(context(), 1, 0, &gid); }))) return check;
    if (!fails(ibv_modify_qp(local.qp.get(), &attr, kToInit))) return check;
    if (!fails(local.post(send))) return check;
    if (!fails(local.post(receive))) return check;
    if (!fails(-ibv_poll_cq(local.cq.get(), 1, &wc))) return check;
    if (!fails(ibv_req_notify_cq(local.cq.get(), 0))) return check;
    if (!fails(ibv_resize_cq(local.cq.get(), 8))) return check;
    if (!fails(error_of_minus_1([&] { return ibv_get_async_event(context(), &event); }))) return check;
    if (!fails(error_of_minus_1([&] { return ibv_get_cq_event(channel.get(), &cq, &cq_context); }))) return check;
    return 0;
  });
  EXPECT_EQ(wrong, 0) << "the number of the call that did not fail with EIO";
  expect_traffic();
}

TEST_F(ShimFork, child__may_destroy_what_it_inherited) {
  const int wrong = in_child([&] {
    int check = 0;
    const auto good = [&check](int error) {
      ++check;
      return error == 0;
    };
    if (!good(ibv_destroy_qp(local.qp.get()))) return check;
    if (!good(ibv_destroy_cq(local.cq.get()))) return check;
    if (!good(ibv_dereg_mr(local.mr.get()))) return check;
    if (!good(ibv_dealloc_pd(pd()))) return check;
    if (!good(ibv_close_device(context()))) return check;
    return 0;
  });
  EXPECT_EQ(wrong, 0);
  expect_traffic();
}

/// qperf forks for each client and opens the device in the child.
TEST_F(ShimFork, child__opens_a_device_of_its_own) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer cannot follow threads that a child of a threaded process starts";
#endif
  const int wrong = in_child([&] {
    const Context own = open_device();
    if (own == nullptr) return 1;
    const Pd own_pd(ibv_alloc_pd(own.get()));
    if (own_pd == nullptr) return 2;
    const Cq own_cq(ibv_create_cq(own.get(), 4, nullptr, nullptr, 0));
    if (own_cq == nullptr) return 3;
    ibv_qp_init_attr attr = small_rc(own_cq.get());
    const Qp own_qp(ibv_create_qp(own_pd.get(), &attr));
    return own_qp == nullptr ? 4 : 0;
  });
  EXPECT_EQ(wrong, 0);
  expect_traffic();
}

}  // namespace
}  // namespace roci::abi
