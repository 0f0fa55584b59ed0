// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
// The keys that strategies and iterators leave in the store of their group after their end.
#include <algorithm>
#include <random>
#include <stdexcept>

#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

#include "comm/c10d_store.h"
#include "distribute/multi_worker_testing.h"

namespace torch_distinput::distribute_testing {
namespace {

/// The number of keys that `size` ranks leave, each of which runs `body(rank number, strategy)`.
template <class Body>
std::int64_t keys_left(int size, const Body& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  {
    std::vector<Rank> ranks;
    for (int rank = 0; rank < size; ++rank)
      ranks.emplace_back(c10d_store(ProcessGroup(*store, rank, size, "test")), 1);
    on_all(ranks, [&](std::int64_t number, Rank& rank) {
      body(number, rank);
      return true;
    });
  }
  return store->getNumKeys();
}

/// `rows` as one stream of all ranks, or as a stream of each rank's own.
DistributedDataset distribute(Rank& rank, bool one_stream, const Dataset& rows) {
  if (one_stream) return rank.distribute_dataset(rows.batch(2));
  return rank.distribute_datasets_from_function([&](const InputContext&) { return rows.batch(2); });
}

TEST(LeftKeys, LoopsThatRunToTheirEndLeaveNone) {
  for (const bool one_stream : {false, true}) {
    EXPECT_EQ(keys_left(3,
                        [&](std::int64_t, Rank& rank) {
                          const auto dataset = distribute(rank, one_stream, Dataset::range(20));
                          for (int epoch = 0; epoch < 3; ++epoch) steps(dataset);
                        }),
              0);
  }
}

TEST(LeftKeys, LoopsLeftEarlyLeaveNone) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 60; ++trial) {
    const int size = 2 + static_cast<int>(random() % 3);
    const bool one_stream = random() % 2 == 0;
    const bool together = random() % 2 == 0;
    const bool closes = random() % 2 == 0;
    const std::size_t first = 1 + random() % 9;
    std::vector<std::size_t> left_at;
    for (int rank = 0; rank < size; ++rank) left_at.push_back(together ? first : 1 + random() % 9);
    const auto left = keys_left(size, [&](std::int64_t number, Rank& rank) {
      const auto dataset = distribute(rank, one_stream, Dataset::range(60));
      for (int loop = 0; loop < 2; ++loop) {
        DistributedIterator iterator = dataset.iterate();
        // Ranks that continue after others have left get an error.
        peer_error([&] { steps(iterator, left_at[static_cast<std::size_t>(number)]); });
        if (closes) iterator.close();
      }
    });
    ASSERT_EQ(left, 0) << "trial " << trial;
  }
}

TEST(LeftKeys, LoopsThatFailLeaveNone) {
  const auto bad = [](Element row) {
    if (row.tensor().item<std::int64_t>() == 11) throw std::runtime_error("row 11 is bad");
    return row;
  };
  for (const bool one_stream : {false, true}) {
    EXPECT_EQ(keys_left(3,
                        [&](std::int64_t number, Rank& rank) {
                          const Dataset rows = Dataset::range(60);
                          const auto dataset =
                              distribute(rank, one_stream, number == 1 || one_stream ? rows.map(bad) : rows);
                          // A fast rank may reach the end before it learns of the failure.
                          try {
                            steps(dataset);
                          } catch (const std::exception&) {
                          }
                        }),
              0);
  }
}

TEST(LeftKeys, HandshakesThatFailLeaveNone) {
  // First one rank cannot make its dataset, then one rank has other data than the others.
  EXPECT_EQ(keys_left(3,
                      [](std::int64_t number, Rank& rank) {
                        const auto make = [&](const InputContext&) {
                          if (number == 2) throw std::runtime_error("no data");
                          return Dataset::range(4).batch(2);
                        };
                        try {
                          steps(rank.distribute_datasets_from_function(make));
                        } catch (const std::exception&) {
                        }
                        peer_error([&] { steps(distribute(rank, true, Dataset::range(4 + number))); });
                      }),
            0);
}

}  // namespace
}  // namespace torch_distinput::distribute_testing
