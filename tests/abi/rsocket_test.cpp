// rsockets as programs use them, both ends in one process: the device loops back.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace roci::abi {
namespace {

int (*real_post_send)(ibv_qp*, ibv_send_wr*, ibv_send_wr**);
thread_local bool stops_after_posts = false;

/// As if the thread were put aside whenever it has posted: the peer then has time to answer.
int post_send_and_stop(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  const int result = real_post_send(qp, wr, bad);
  if (stops_after_posts) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  return result;
}

class Rsocket : public testing::Test {
 protected:
  void SetUp() override {
    devices_ = rdma_get_devices(&count_);
    ASSERT_EQ(count_, 1);
    // Before there is another thread: the device is the whole process's.
    real_post_send = devices_[0]->ops.post_send;
    devices_[0]->ops.post_send = post_send_and_stop;
    ibv_gid gid;
    ASSERT_EQ(ibv_query_gid(devices_[0], 1, 0, &gid), 0);
    address_.sin_family = AF_INET;
    address_.sin_port = htons(7471);
    std::memcpy(&address_.sin_addr, gid.raw + 12, 4);
    listener_ = rsocket(AF_INET, SOCK_STREAM, 0);
    ASSERT_GE(listener_, 0);
    ASSERT_EQ(rbind(listener_, reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    ASSERT_EQ(rlisten(listener_, 1), 0);
  }

  void TearDown() override {
    devices_[0]->ops.post_send = real_post_send;
    EXPECT_EQ(rclose(listener_), 0);
    rdma_free_devices(devices_);
  }

  int connected() {
    const int fd = rsocket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(rconnect(fd, reinterpret_cast<sockaddr*>(&address_), sizeof address_), 0);
    return fd;
  }

  int listener() const { return listener_; }

 private:
  ibv_context** devices_ = nullptr;
  int count_ = 0;
  int listener_ = -1;
  sockaddr_in address_{};
};

std::uint8_t byte_at(std::size_t offset) { return static_cast<std::uint8_t>(offset * 7 + (offset >> 8)); }

/// Reads to the end; how many bytes came, and how many of them were not the right ones.
void read_all(int fd, std::size_t* bytes, std::size_t* wrong) {
  std::vector<std::uint8_t> part(100'000);
  ssize_t count = 0;
  while ((count = rrecv(fd, part.data(), part.size(), 0)) > 0) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) *wrong += part[i] != byte_at(*bytes + i);
    *bytes += static_cast<std::size_t>(count);
  }
}

// The peer's buffer is 256 KiB: the stream goes through it several times, and each time both ends hand over room.
TEST_F(Rsocket, stream__is_whole_when_the_peer_answers_before_a_send_returns) {
  constexpr std::size_t kBytes = 3'000'000;
  std::vector<std::uint8_t> data(kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) data[i] = byte_at(i);
  std::size_t bytes = 0;
  std::size_t wrong = 0;
  std::thread reader([&] {
    const int fd = raccept(listener(), nullptr, nullptr);
    read_all(fd, &bytes, &wrong);
    EXPECT_EQ(rclose(fd), 0);
  });
  const int fd = connected();
  stops_after_posts = true;
  std::size_t sent = 0;
  while (sent < kBytes) {
    // Given up after a while: a stream that has lost room never gets any again.
    pollfd writable{fd, POLLOUT, 0};
    if (rpoll(&writable, 1, 20'000) != 1) break;
    const ssize_t count = rsend(fd, data.data() + sent, std::min<std::size_t>(kBytes - sent, 50'000), MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) continue;
    ASSERT_GT(count, 0);
    sent += static_cast<std::size_t>(count);
  }
  stops_after_posts = false;
  EXPECT_EQ(rshutdown(fd, SHUT_RDWR), 0);
  reader.join();
  EXPECT_EQ(rclose(fd), 0);
  EXPECT_EQ(bytes, kBytes);
  EXPECT_EQ(wrong, 0U);
}

}  // namespace
}  // namespace roci::abi
