// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distribute/splitting/splitter.h"

namespace torch_distinput {

/// What splitters have in common that cut every element by itself, contiguously.
///
/// `SplitPosition::row` is where the cut part of the element begins: 0, except where an epoch is resumed
/// that was assigned differently before. A split between parts that are not those of this splitter goes on
/// behind their rows.
class ElementSplitter : public Splitter {
 public:
  std::vector<Part> assign(SplitPosition& split, RowCounts& counts, std::int64_t count) const final;
  std::optional<std::int64_t> round_rows() const final { return std::nullopt; }
  std::vector<std::int64_t> shares(std::int64_t batch, std::int64_t first, std::int64_t count) const final;

 protected:
  /// `parts()` sizes that add up to `rows`.
  virtual std::vector<std::int64_t> cut(std::int64_t rows) const = 0;

 private:
  bool stands_between_parts(const SplitPosition& at, std::int64_t rows) const;
};

}  // namespace torch_distinput
