// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ops/random_pipelines.h"
#include "support/remote_rows.h"

/// What random pipelines tell a source over a network.
namespace torch_distinput {
namespace {

using namespace op_testing;
using fakes::ReadLog;

constexpr std::uint32_t kRemotePipelines = 300;

/// A random pipeline over one remote source, and what that was told.
struct RemotePipeline {
  std::shared_ptr<ReadLog> log;
  Pipeline pipeline;

  bool runs_plan() const { return plan_of(pipeline.dataset) != nullptr; }
  bool caches() const { return pipeline.text.find("cache") != std::string::npos; }
};

/// How a random pipeline runs: by its number, so that all ways meet all ops.
Options options_of(std::uint32_t seed) {
  Options options;
  if (seed % 3 > 0) options.num_threads = seed % 3 == 1 ? 0 : 2;
  if (seed % 4 > 1) options.prefetch_bytes = seed % 4 == 2 ? 1 : 200;
  return options;
}

RemotePipeline remote_pipeline(std::uint32_t seed, bool remote) {
  auto log = std::make_shared<ReadLog>();
  const auto source = [&](std::int64_t size) {
    return fakes::remote_rows({.size = size, .remote = remote, .dense = seed % 2 == 0}, log);
  };
  Pipeline pipeline = Builder(seed, source).build();
  pipeline.dataset = pipeline.dataset.with_options(options_of(seed));
  return {std::move(log), std::move(pipeline)};
}

/// Checks what was read in full: what was announced is what was read.
void expect_all_read(const RemotePipeline& remote) {
  if (!remote.runs_plan()) return;
  if (!remote.caches()) {
    EXPECT_EQ(remote.log->announced(), remote.log->read());
    return;
  }
  for (const auto& [position, count] : remote.log->announced())
    EXPECT_TRUE(remote.log->read().contains(position)) << position;
}

template <class Check>
void for_remote_pipelines(const Check& check) {
  for (std::uint32_t seed = 0; seed < kRemotePipelines; ++seed) {
    SCOPED_TRACE("pipeline " + std::to_string(seed) + ": " + remote_pipeline(seed, true).pipeline.text);
    check(seed);
    if (::testing::Test::HasFailure()) return;
  }
}

TEST(RemoteReads, AreAnnouncedFirstAndYieldTheRowsOfALocalSource) {
  int plans = 0;
  for_remote_pipelines([&](std::uint32_t seed) {
    const RemotePipeline local = remote_pipeline(seed, false);
    const RemotePipeline remote = remote_pipeline(seed, true);
    const IterateOptions run = {.epoch = 2, .seed = 3};
    EXPECT_EQ(elements(remote.pipeline.dataset, run), elements(local.pipeline.dataset, run));
    EXPECT_TRUE(local.log->announced().empty());
    EXPECT_EQ(remote.log->unannounced(), std::vector<std::int64_t>{});
    expect_all_read(remote);
    plans += remote.runs_plan() && !remote.caches() ? 1 : 0;
  });
  EXPECT_GT(plans, static_cast<int>(kRemotePipelines) / 10);
}

TEST(RemoteReads, AreAnnouncedFirstOnTheSequentialPath) {
  for_remote_pipelines([](std::uint32_t seed) {
    const RemotePipeline local = remote_pipeline(seed, false);
    const RemotePipeline remote = remote_pipeline(seed, true);
    const IterateOptions run = {.epoch = 2, .seed = 3, .stream_only = true};
    EXPECT_EQ(elements(remote.pipeline.dataset, run), elements(local.pipeline.dataset, run));
    EXPECT_TRUE(local.log->announced().empty());
    EXPECT_EQ(remote.log->unannounced(), std::vector<std::int64_t>{});
  });
}

TEST(RemoteReads, AreAnnouncedFirstAfterAStateFromTheMiddle) {
  for_remote_pipelines([](std::uint32_t seed) {
    const IterateOptions run = {.epoch = 1, .seed = 3};
    const RemotePipeline before = remote_pipeline(seed, true);
    DatasetIterator first = before.pipeline.dataset.iterate(run);
    elements(first, seed % 5);
    const State middle = first.save();
    const std::vector<Values> rest = elements(first);
    EXPECT_EQ(before.log->unannounced(), std::vector<std::int64_t>{});

    const RemotePipeline after = remote_pipeline(seed, true);
    DatasetIterator second = after.pipeline.dataset.iterate(run);
    second.load(middle);
    EXPECT_EQ(elements(second), rest);
    EXPECT_EQ(after.log->unannounced(), std::vector<std::int64_t>{});
    expect_all_read(after);
  });
}

TEST(RemoteReads, AreNotAnnouncedOfRowsThatACacheHolds) {
  const auto log = std::make_shared<ReadLog>();
  const Dataset cached = fakes::remote_rows({.size = 20}, log).cache().batch(3);
  elements(cached);
  const ReadLog::Counts once = log->announced();
  elements(cached, {.epoch = 1});
  EXPECT_EQ(log->announced(), once);
  EXPECT_EQ(log->read(), once);
}

TEST(RemoteReads, AreAnnouncedOfAShuffleThatSkipsRows) {
  const auto log = std::make_shared<ReadLog>();
  const Dataset rows = fakes::remote_rows({.size = 30}, log).map(fails_at(7)).shuffle({.seed = 4});
  EXPECT_EQ(values(rows.with_options(skipping())).size(), 29U);
  EXPECT_EQ(log->unannounced(), std::vector<std::int64_t>{});
  EXPECT_EQ(log->announced(), log->read());
  const std::vector<std::int64_t> ahead = log->ahead();
  EXPECT_GT(*std::max_element(ahead.begin(), ahead.end()), 20);
}

}  // namespace
}  // namespace torch_distinput
