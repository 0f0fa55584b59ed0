// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distribute/splitting/splitter.h"

namespace torch_distinput {

/// The common part of splitters that cut every element by itself, contiguously.
///
/// `SplitPosition::row` is where the rows that are cut begin within the element: 0, except in a resumed epoch
/// that was split differently before. A position between parts that are not those of this splitter continues
/// after the rows of these parts.
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
