// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "sources/columns/block_run.h"

namespace torch_distinput {

/// The rows of a block that cannot be made as a whole, in order: parts that can, found by halving. One bad
/// row costs the others nothing. One thread at a time.
class BlockParts {
 public:
  /// Makes rows [begin, end) of the block, or throws.
  using Make = std::function<BlockPtr(std::int64_t begin, std::int64_t end)>;
  /// Some rows of the block, which begin with row `begin` of it.
  struct Part {
    BlockPtr rows;
    std::int64_t begin;
  };

  /// Rows [`begin`, `end`).
  BlockParts(std::int64_t begin, std::int64_t end, Make make) : make_(std::move(make)), left_{{begin, end}} {}

  /// The next part, nullopt at the end. Throws the error of a row that cannot be made; the next call begins
  /// after it.
  std::optional<Part> next();
  /// Whether no rows are left.
  bool empty() const { return left_.empty(); }

 private:
  Make make_;
  std::vector<std::pair<std::int64_t, std::int64_t>> left_;  ///< the first range last
};

}  // namespace torch_distinput
