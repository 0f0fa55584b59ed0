// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// Seeds on which processes agree that exchange nothing else: the first that asks for a seed draws it. All
/// ask for them in the same order. Safe from any thread.
class AgreedSeeds {
 public:
  explicit AgreedSeeds(KeyValueStorePtr store) : store_(std::move(store)) {}

  /// The next one, in [0, 2^63). Waits for the store only. Throws DistributedDatasetError where the store is
  /// lost, or has what is no seed.
  std::uint64_t next();

 private:
  KeyValueStorePtr store_;
  std::atomic<std::int64_t> taken_ = 0;
};

}  // namespace torch_distinput
