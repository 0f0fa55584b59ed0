// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "workers/fork_record.h"

#include <csignal>
#include <filesystem>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

std::ptrdiff_t descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
}

/// A child that lives until it is killed.
::pid_t start_child() {
  const ::pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    while (true) ::pause();
  }
  return child;
}

void kill_child(::pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(ForkRecords, TellWhichMemoryChildrenMaySee) {
  const VisibleToForks visible;
  EXPECT_FALSE(seen_by_forks(visible.first_fork()));
  const ::pid_t child = start_child();
  EXPECT_TRUE(seen_by_forks(visible.first_fork()));
  const VisibleToForks later;
  EXPECT_FALSE(seen_by_forks(later.first_fork()));
  kill_child(child);
  EXPECT_FALSE(seen_by_forks(visible.first_fork()));
}

TEST(ForkRecords, KeepNothingOfChildrenThatAreGone) {
  const VisibleToForks visible;
  const std::ptrdiff_t before = descriptors();
  for (int forks = 0; forks < 20; ++forks) kill_child(start_child());
  EXPECT_LE(descriptors(), before + 1) << "nobody has asked yet";
  {
    const VisibleToForks other;
  }
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace torch_distinput
