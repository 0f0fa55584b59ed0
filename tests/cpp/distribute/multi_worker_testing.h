// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "comm/key_value_store.h"
#include "distribute/coordination/peers.h"
#include "distribute/distribute_testing.h"
#include "support/in_memory_stores.h"
#include "torch_distinput/error.h"

/// Several ranks in one process, over a store in memory.
namespace torch_distinput::distribute_testing {

/// One rank's strategy with `per_rank` CPU replicas.
class Rank final : public Strategy {
 public:
  Rank(const KeyValueStorePtr& kv_store, std::int64_t per_rank)
      : Strategy(std::vector<c10::Device>(static_cast<std::size_t>(per_rank), c10::Device(c10::kCPU)),
                 /*partial_batches=*/true) {
    num_ranks_ = kv_store->size();
    rank_ = kv_store->rank();
    peers_ = std::make_shared<Peers>(
        std::make_shared<GroupPeers>(kv_store, HostIdentity{}, std::chrono::milliseconds(5)));
  }
};

inline std::vector<Rank> ranks_of(int num_ranks, std::int64_t per_rank = 1) {
  std::vector<Rank> ranks;
  for (const auto& kv_store : in_memory_stores(num_ranks)) ranks.emplace_back(kv_store, per_rank);
  return ranks;
}

/// Runs `body(rank number, strategy)` on a thread for each rank; the results by rank.
template <class Body>
auto on_all(std::vector<Rank>& ranks, const Body& body) {
  std::vector<std::future<decltype(body(0, ranks[0]))>> futures;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    futures.push_back(std::async(std::launch::async,
                                 [&, rank] { return body(static_cast<std::int64_t>(rank), ranks[rank]); }));
  }
  std::vector<decltype(body(0, ranks[0]))> results;
  for (auto& future : futures) results.push_back(future.get());
  return results;
}

/// The text of the DistributedDatasetError that `body` throws; "" if it throws none.
template <class Body>
std::string peer_error(const Body& body) {
  try {
    body();
  } catch (const DistributedDatasetError& error) {
    return error.what_without_backtrace();
  }
  return "";
}

}  // namespace torch_distinput::distribute_testing
