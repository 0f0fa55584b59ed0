// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace torch_distinput {

/// How far indexing has come: of files that have `total` bytes in all, `bytes` are done. Where lengths are
/// counted (`Dataset::with_lengths`), these are the bytes of the index that is made.
struct IndexingProgress {
  std::int64_t files = 0;
  std::int64_t bytes = 0;
  std::int64_t total = 0;
  bool done = false;            ///< the last call
  std::int64_t downloaded = 0;  ///< bytes of objects that had no stored index
};

}  // namespace torch_distinput
