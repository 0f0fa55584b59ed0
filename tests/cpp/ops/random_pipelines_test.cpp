// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/random_pipelines.h"

#include <cstdint>
#include <functional>
#include <string>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using namespace op_testing;

constexpr int kPipelines = 200;
constexpr std::int64_t kMaxElements = 24;

/// Calls `check` with kPipelines random pipelines, up to the first failure.
void for_random_pipelines(const std::function<void(const Pipeline&)>& check) {
  for (std::uint32_t seed = 0; seed < kPipelines; ++seed) {
    const Pipeline pipeline = Builder(seed).build();
    SCOPED_TRACE("pipeline " + std::to_string(seed) + ": " + pipeline.text);
    check(pipeline);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RandomPipelines, YieldTheSameElementsOnBothPaths) {
  for_random_pipelines(
      [](const Pipeline& p) { EXPECT_NO_THROW(testing::assert_paths_agree(p.dataset, kMaxElements)); });
}

TEST(RandomPipelines, CanBeResumedAnywhere) {
  for_random_pipelines(
      [](const Pipeline& p) { EXPECT_NO_THROW(testing::assert_resumable(p.dataset, true, kMaxElements)); });
}

TEST(RandomPipelines, YieldEveryNumberOnceIfOnlyTheOrderChanges) {
  int checked = 0;
  for_random_pipelines([&](const Pipeline& p) {
    if (!p.only_permutes) return;
    ++checked;
    EXPECT_EQ(sorted(values(p.dataset)), numbers(0, p.size));
  });
  EXPECT_GT(checked, kPipelines / 20);
}

TEST(RandomPipelines, YieldTheSameElementsWithAnyNumberOfThreads) {
  for_random_pipelines([](const Pipeline& p) {
    const IterateOptions run = {.epoch = 2, .seed = 3};
    const std::vector<Values> expected = elements(p.dataset, run);
    for (const std::int64_t threads : {0, 1, 2, 4}) {
      EXPECT_EQ(elements(p.dataset.with_options({.num_threads = threads}), run), expected)
          << threads << " threads";
    }
  });
}

TEST(RandomPipelines, HaveAsManyElementsAsTheirCardinality) {
  for_random_pipelines([](const Pipeline& p) {
    const std::int64_t promised = p.dataset.cardinality();
    if (promised < 0) return;
    EXPECT_EQ(static_cast<std::int64_t>(elements(p.dataset).size()), promised);
  });
}

}  // namespace
}  // namespace torch_distinput
