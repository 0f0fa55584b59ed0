// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "comm/key_value_store.h"

namespace torch_distinput {

/// What goes to stores and comes from them. Safe from any thread.
struct StoreTraffic {
  std::atomic<std::int64_t> requests{0};
  std::atomic<std::int64_t> bytes{0};  ///< of keys, texts and numbers
  std::atomic<std::int64_t> users{0};  ///< stores of which one call was made at least
};

/// `inner`, whose traffic is added to `traffic`. An `await` that ends with a text is two requests: the wait,
/// and the reading of the text.
KeyValueStorePtr counting_store(KeyValueStorePtr inner, std::shared_ptr<StoreTraffic> traffic);

}  // namespace torch_distinput
