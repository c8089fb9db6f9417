#include "tools/roci/bench/process.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <cerrno>
#include <string>

namespace roci::bench {
namespace {

constexpr Duration kAtMost = seconds(60);

Failure failure_of(const Command& command, Duration at_most) {
  try {
    run_to_end(command, at_most);
  } catch (const Failure& failure) {
    return failure;
  }
  return Failure("none");
}

TEST(Process, OutputOfBothStreamsIsCollected) {
  EXPECT_EQ(run_to_end({"sh", "-c", "echo one; echo two >&2; cat"}, kAtMost), "one\ntwo\n") << "there is no input";
}

TEST(Process, AFailureTellsTheLastLines) {
  const Failure failure = failure_of({"sh", "-c", "echo good; echo ---; echo no such device; exit 1"}, kAtMost);
  EXPECT_STREQ(failure.what(), "sh failed");
  EXPECT_TRUE(failure.details.ends_with("good | no such device")) << failure.details;
}

TEST(Process, WhatRunsUnderAnotherProgramIsNamed) {
  EXPECT_STREQ(failure_of({"env", "--", "false"}, kAtMost).what(), "false failed");
}

TEST(Process, AProgramThatIsNotThereFails) {
  const Failure failure = failure_of({"no-such-program"}, kAtMost);
  EXPECT_STREQ(failure.what(), "no-such-program failed");
  EXPECT_NE(failure.details.find("No such file"), std::string::npos) << failure.details;
}

TEST(Process, OneThatIsNotDoneInTimeFailsAndIsEnded) {
  EXPECT_STREQ(failure_of({"sleep", "1000"}, Duration{}).what(), "sleep is not done after 0 s");
}

TEST(Process, ItEndsWithItsObject) {
  pid_t pid = 0;
  {
    const Child child({"sleep", "1000"});
    pid = child.pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(Process, AServerThatEndsDoesNotListen) {
  Child child({"true"});
  EXPECT_THROW(child.wait_until_listening(1), Failure);
}

TEST(Process, InstalledOrNot) {
  EXPECT_TRUE(is_installed("sh"));
  EXPECT_FALSE(is_installed("no-such-program"));
}

}  // namespace
}  // namespace roci::bench
