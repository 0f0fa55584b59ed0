// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "distribute/multi_worker_testing.h"

/// `Tail::kMerge` where ranks read streams of their own, against the steps that they take without it.
namespace torch_distinput::distribute_testing {
namespace {

/// What one rank saw of an epoch.
struct OwnEpoch {
  Steps steps = {};
  std::vector<std::int64_t> global_valid = {};
  std::vector<std::int64_t> row_start = {};
  std::vector<bool> is_last = {};
};

OwnEpoch see_epoch(DistributedIterator& iterator) {
  OwnEpoch seen;
  while (const auto step = iterator.next()) {
    seen.steps.push_back(rows(*step));
    seen.global_valid.push_back(step->info().global_valid);
    seen.row_start.push_back(step->info().row_start);
    seen.is_last.push_back(step->info().is_last);
  }
  return seen;
}

/// Rank r reads rows [1000 r, 1000 r + lengths[r]) by itself, for `per_rank` replicas.
std::vector<OwnEpoch> run_own(const std::vector<std::int64_t>& lengths, std::int64_t per_rank,
                              std::int64_t batch, bool stream, const InputOptions& options) {
  auto ranks = ranks_of(static_cast<int>(lengths.size()), per_rank);
  return on_all(ranks, [&](std::int64_t number, Rank& rank) {
    const std::int64_t first = 1000 * number;
    Dataset own = Dataset::range(first, first + lengths[static_cast<std::size_t>(number)]);
    if (stream) own = own.filter([](const Element&) { return true; });
    DistributedIterator iterator =
        rank.distribute_dataset(with_policy(own.batch(batch), AutoShardPolicy::kOff), options).iterate();
    return see_epoch(iterator);
  });
}

Rows rows_from(const OwnEpoch& seen, std::size_t first) {
  Rows rows;
  for (std::size_t step = first; step < seen.steps.size(); ++step) {
    for (const Rows& part : seen.steps[step]) rows.insert(rows.end(), part.begin(), part.end());
  }
  return rows;
}

/// What ranks that took the steps `all` with parts without rows should take instead.
std::vector<OwnEpoch> merged(std::vector<OwnEpoch> all, std::int64_t per_rank) {
  const std::size_t steps = all[0].steps.size();
  const auto lacks = [&](const OwnEpoch& seen) {
    return std::ranges::any_of(seen.steps.back(), [](const Rows& part) { return part.empty(); });
  };
  if (steps == 0 || std::ranges::none_of(all, lacks)) return all;
  const std::size_t first = steps - std::min<std::size_t>(steps, 2);
  const auto enough = [&](const OwnEpoch& seen) { return std::ssize(rows_from(seen, first)) >= per_rank; };
  if (!std::ranges::all_of(all, enough)) return all;
  for (OwnEpoch& seen : all) {
    const Rows rows = rows_from(seen, first);
    const std::int64_t n = std::ssize(rows);
    seen.global_valid[first] = std::accumulate(seen.global_valid.begin() + static_cast<std::ptrdiff_t>(first),
                                               seen.global_valid.end(), std::int64_t{0});
    seen.steps.resize(first);
    auto& parts = seen.steps.emplace_back();
    for (std::int64_t g = 0, begin = 0; g < per_rank; ++g) {
      const std::int64_t size = n / per_rank + (g < n % per_rank ? 1 : 0);
      parts.emplace_back(rows.begin() + begin, rows.begin() + begin + size);
      begin += size;
    }
    seen.global_valid.resize(first + 1);
    seen.row_start.resize(first + 1);
    seen.is_last.assign(first + 1, false);
    seen.is_last.back() = true;
  }
  return all;
}

TEST(MergedLastStep, OneThatLacksRowsOnARankIsMergedOnAll) {
  std::mt19937 random(31);
  int shorter = 0;
  for (int trial = 0; trial < 120; ++trial) {
    const std::int64_t per_rank = 1 + static_cast<std::int64_t>(random() % 3);
    const std::int64_t batch = 1 + static_cast<std::int64_t>(random() % 9);
    std::vector<std::int64_t> lengths(2 + random() % 3);
    const std::uint32_t most = 1 + random() % 40;
    // Streams whose ends lie close together, mostly.
    for (auto& length : lengths)
      length =
          static_cast<std::int64_t>(most - std::min<std::uint32_t>(most, random() % (random() % 4 ? 9 : 40)));
    InputOptions options{.per_replica_buffer_size = static_cast<std::int64_t>(random() % 3)};
    if (random() % 2 == 0) options.split = Split::kBalanced;
    const bool stream = random() % 2 == 0;
    const auto before = run_own(lengths, per_rank, batch, stream, options);
    options.tail = Tail::kMerge;
    const auto after = run_own(lengths, per_rank, batch, stream, options);
    const auto wanted = merged(before, per_rank);
    shorter += wanted[0].steps.size() < before[0].steps.size() ? 1 : 0;
    for (std::size_t rank = 0; rank < lengths.size(); ++rank) {
      SCOPED_TRACE(c10::str("trial ", trial, ", rank ", rank, " of ", lengths.size(), " x ", per_rank));
      ASSERT_EQ(after[rank].steps, wanted[rank].steps);
      EXPECT_EQ(after[rank].global_valid, wanted[rank].global_valid);
      EXPECT_EQ(after[rank].row_start, wanted[rank].row_start);
      EXPECT_EQ(after[rank].is_last, wanted[rank].is_last);
    }
  }
  EXPECT_GT(shorter, 20);
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
