// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/arena_cpus.h"

#include <latch>

#include <gtest/gtest.h>
#include <sched.h>

#include "runtime/arena.h"

namespace torch_distinput {
namespace {

cpu_set_t own_cpus() {
  cpu_set_t own;
  CPU_ZERO(&own);
  ::sched_getaffinity(0, sizeof(own), &own);
  return own;
}

/// Those of a thread that has joined an arena just now.
cpu_set_t cpus_of_arena() {
  cpu_set_t seen;
  std::latch ran(1);
  const auto arena = make_arena(1);
  arena->submit([&] {
    seen = own_cpus();
    ran.count_down();
  });
  ran.wait();
  return seen;
}

TEST(ArenaCpus, ThreadsRunWhereTheyAreKept) {
  const cpu_set_t all = own_cpus();
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  keep_arenas_on({first, CPU_SETSIZE - 1, CPU_SETSIZE, -1});
  const cpu_set_t kept = cpus_of_arena();
  EXPECT_TRUE(CPU_EQUAL(&kept, &one));
  const cpu_set_t caller = own_cpus();
  EXPECT_TRUE(CPU_EQUAL(&caller, &all));

  keep_arenas_on({CPU_SETSIZE - 1});  // none that this process may use
  const cpu_set_t without = cpus_of_arena();
  EXPECT_TRUE(CPU_EQUAL(&without, &all));
  keep_arenas_on({first});
  keep_arenas_on({});
  const cpu_set_t again = cpus_of_arena();
  EXPECT_TRUE(CPU_EQUAL(&again, &all));
}

}  // namespace
}  // namespace torch_distinput
