// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "execution/epoch_cache.h"
#include "ops/tokens/document_lengths.h"
#include "ops/tokens/pack_index.h"

namespace torch_distinput {

/// The indexes that were made last. Safe from any thread.
class PackIndexCache {
 public:
  /// The index of `documents`, whose order has the key `order`. One that was made before is returned if their
  /// number and some of their lengths are still the same.
  PackIndexPtr get(std::vector<std::int64_t> order, const DocumentLengths& documents,
                   const std::function<PackIndexPtr()>& make);

 private:
  EpochCache<PackIndex> indexes_;
};

}  // namespace torch_distinput
