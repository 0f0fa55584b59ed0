// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/options.h"

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

TEST(Options, LaterFieldsWinOneByOne) {
  const Options first{.auto_shard_policy = AutoShardPolicy::kOff, .seed = 3};
  const Options second{.num_threads = 2, .seed = 4};
  const Options merged = first.merged(second);
  EXPECT_EQ(merged.auto_shard_policy, AutoShardPolicy::kOff);
  EXPECT_EQ(merged.num_threads, 2);
  EXPECT_EQ(merged.seed, 4);
}

TEST(Options, PrintOnlyWhatIsSet) {
  EXPECT_EQ(Options{}.str(), "Options()");
  const Options options{.auto_shard_policy = AutoShardPolicy::kData, .skip = Skip{.max_count = 5}};
  EXPECT_EQ(options.str(), "Options(auto_shard_policy=DATA, on_error=Skip(max_count=5, max_fraction=None))");
}

TEST(Options, RejectValuesOutOfRange) {
  EXPECT_THROW(Options{.num_threads = -1}.validate(), c10::ValueError);
  EXPECT_THROW(Options{.prefetch = -1}.validate(), c10::ValueError);
  EXPECT_THROW(Options{.prefetch_bytes = 0}.validate(), c10::ValueError);
  EXPECT_THROW((Options{.skip = Skip{.max_fraction = 1.5}}.validate()), c10::ValueError);
  Options{.num_threads = 0, .prefetch = 0, .skip = Skip{}}.validate();
}

}  // namespace
}  // namespace torch_distinput
