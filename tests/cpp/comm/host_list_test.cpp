// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_list.h"

#include <random>
#include <string>

#include <gtest/gtest.h>

#include "support/mutations.h"

namespace torch_distinput {
namespace {

TEST(HostList, FirstHostOfAListAsSlurmWritesThem) {
  EXPECT_EQ(first_host("node01"), "node01");
  EXPECT_EQ(first_host("login,node[01-03]"), "login");
  EXPECT_EQ(first_host("node[01-03,07],login"), "node01");
  EXPECT_EQ(first_host("node[7]"), "node7");
  EXPECT_EQ(first_host("r[1-2]n[003,5]-ib,x"), "r1n003-ib");
}

TEST(HostList, RefusesOtherTexts) {
  for (const char* const text :
       {"", ",a", "node[", "node]", "node[]", "node[-3]", "node[a]", "[", "node[[1]]"})
    EXPECT_EQ(first_host(text), std::nullopt) << text;
}

TEST(HostList, DamagedListsHaveAHostOrNone) {
  std::mt19937_64 random(5);
  for (int i = 0; i < mutations_testing::kMutations; ++i) {
    const auto host = first_host(mutations_testing::mutated("r[1-2]n[003,5]-ib,node[01-03,07]", random));
    EXPECT_TRUE(!host || (!host->empty() && host->find_first_of("[],") == std::string::npos));
  }
}

}  // namespace
}  // namespace torch_distinput
