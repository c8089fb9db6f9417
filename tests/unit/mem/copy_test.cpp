#include "stack/mem/copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "drivers/live/fault_handler.h"

namespace roci {
namespace {

constexpr std::size_t kPage = 4096;

/// Two pages, of which the second is taken away.
struct HalfGone {
  HalfGone() {
    first = static_cast<std::uint8_t*>(
        mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    munmap(first + kPage, kPage);
  }
  ~HalfGone() { munmap(first, kPage); }
  std::uint8_t* edge() const { return first + kPage; }
  std::uint8_t* first;
};

struct UserCopy : ::testing::Test {
  UserCopy() { install_fault_handler(); }
};

TEST_F(UserCopy, copy_user__every_size_and_nothing_outside) {
  std::vector<std::uint8_t> from(5000);
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::uint8_t>(i * 31 + i / 256);
  for (std::size_t bytes = 0; bytes <= 4200; bytes = bytes < 700 ? bytes + 1 : bytes + 97) {
    for (const std::size_t shift : {0, 1, 7, 15}) {
      std::vector<std::uint8_t> to(bytes + 64, 0xee);
      ASSERT_TRUE(copy_user(to.data() + 16 + shift, from.data() + shift * 3, bytes));
      ASSERT_EQ(std::memcmp(to.data() + 16 + shift, from.data() + shift * 3, bytes), 0) << bytes;
      for (std::size_t i = 0; i < 16 + shift; ++i) ASSERT_EQ(to[i], 0xee) << bytes;
      for (std::size_t i = 16 + shift + bytes; i < to.size(); ++i) ASSERT_EQ(to[i], 0xee) << bytes;
    }
  }
}

TEST_F(UserCopy, copy_user__page_that_is_gone_is_an_answer_at_every_size_and_place) {
  const HalfGone memory;
  std::vector<std::uint8_t> other(2 * kPage);
  for (std::size_t bytes = 1; bytes <= 3000; bytes = bytes < 400 ? bytes + 1 : bytes + 191)
    for (std::size_t inside = 0; inside < bytes; inside = inside * 2 + 1) {
      ASSERT_FALSE(copy_user(other.data(), memory.edge() - inside, bytes)) << bytes << " " << inside;
      ASSERT_FALSE(copy_user(memory.edge() - inside, other.data(), bytes)) << bytes << " " << inside;
    }
  ASSERT_TRUE(copy_user(memory.edge() - 100, other.data(), 100));
}

TEST_F(UserCopy, copy_user__read_only_page_cannot_be_written) {
  auto* page = mmap(nullptr, kPage, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::uint8_t byte = 1;
  EXPECT_FALSE(copy_user(page, &byte, 1));
  EXPECT_TRUE(copy_user(&byte, page, 1));
  munmap(page, kPage);
}

TEST_F(UserCopy, copy_user__file_cut_short_under_a_mapping) {
  char name[] = "/tmp/roci-copy-XXXXXX";
  const int fd = mkstemp(name);
  unlink(name);
  ASSERT_EQ(ftruncate(fd, 2 * kPage), 0);
  void* memory = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  std::vector<std::uint8_t> other(2 * kPage);
  EXPECT_TRUE(copy_user(memory, other.data(), 2 * kPage));
  ASSERT_EQ(ftruncate(fd, 0), 0);
  EXPECT_FALSE(copy_user(memory, other.data(), kPage));
  EXPECT_FALSE(copy_user(other.data(), memory, 8));
  munmap(memory, 2 * kPage);
  close(fd);
}

TEST_F(UserCopy, atomics__result_and_a_page_that_is_gone) {
  std::uint64_t word = 40;
  std::uint64_t original = 0;
  EXPECT_TRUE(user_fetch_add64(&word, 2, &original));
  EXPECT_EQ(original, 40u);
  EXPECT_EQ(word, 42u);
  EXPECT_TRUE(user_compare_swap64(&word, 1, 9, &original));
  EXPECT_EQ(original, 42u);
  EXPECT_EQ(word, 42u);
  EXPECT_TRUE(user_compare_swap64(&word, 42, 9, &original));
  EXPECT_EQ(word, 9u);
  const HalfGone memory;
  auto* gone = reinterpret_cast<std::uint64_t*>(memory.edge());
  EXPECT_FALSE(user_fetch_add64(gone, 1, &original));
  EXPECT_FALSE(user_compare_swap64(gone, 1, 2, &original));
}

TEST_F(UserCopy, fault_of_the_program_itself__still_ends_it) {
  const HalfGone memory;
  const pid_t child = fork();
  if (child == 0) {
    *reinterpret_cast<volatile std::uint8_t*>(memory.edge()) = 1;
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
#else
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV) << status;
#endif
}

sigjmp_buf back;
void jump_back(int) { siglongjmp(back, 1); }

/// A handler that was there before ours still gets the faults of its program.
TEST_F(UserCopy, handler_installed_before__still_gets_its_faults) {
  const pid_t child = fork();
  if (child == 0) {
    // In the child, as in a program that installs its handler first: the order is that of execve.
    execl("/proc/self/exe", "test-mem", "--gtest_also_run_disabled_tests", "--gtest_filter=*DISABLED_handler_first",
          nullptr);
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

TEST(UserCopyAlone, DISABLED_handler_first) {
  struct sigaction action {};
  action.sa_handler = jump_back;
  sigaction(SIGSEGV, &action, nullptr);
  install_fault_handler();
  const HalfGone memory;
  for (int i = 0; i < 3; ++i) {
    volatile int caught = 0;
    if (sigsetjmp(back, 1) == 0)
      *reinterpret_cast<volatile std::uint8_t*>(memory.edge()) = 1;
    else
      caught = 1;
    EXPECT_EQ(caught, 1);
    std::uint8_t byte = 0;
    EXPECT_FALSE(copy_user(&byte, memory.edge(), 1));
  }
}

}  // namespace
}  // namespace roci
