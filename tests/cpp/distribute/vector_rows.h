// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "distribute/model.h"
#include "distribute/splitting/batch_sizes.h"
#include "distribute/splitting/part.h"
#include "distribute/splitting/splitter.h"

namespace torch_distinput {

/// Row counts from a list.
class VectorRows final : public RowCounts {
 public:
  explicit VectorRows(std::vector<std::int64_t> rows) : rows_(std::move(rows)) {}

  std::optional<std::int64_t> rows(std::int64_t element) override {
    furthest_ = std::max(furthest_, element);
    if (element >= std::ssize(rows_)) return std::nullopt;
    return rows_[static_cast<std::size_t>(element)];
  }

  /// The last element that was asked for.
  std::int64_t furthest() const { return furthest_; }
  /// The numbers, counted through the epoch, of the rows that `part` names.
  std::vector<std::int64_t> numbers(const Part& part) const {
    std::vector<std::int64_t> rows;
    for (const Segment& segment : part.segments) {
      std::int64_t first = 0;
      for (std::int64_t e = 0; e < segment.element; ++e) first += rows_[static_cast<std::size_t>(e)];
      for (std::int64_t row = segment.begin; row < segment.end; ++row) rows.push_back(first + row);
    }
    return rows;
  }

 private:
  std::int64_t furthest_ = -1;
  std::vector<std::int64_t> rows_;
};

/// The splitter of a case of the model.
inline SplitterPtr splitter_of(const model::Case& c) {
  switch (c.kind) {
    case model::Kind::kLegacy:
      return legacy_splitter(c.replicas);
    case model::Kind::kV2:
      return v2_splitter(batch_sizes_for_worker(c.batch, 1, c.replicas, 0));
    case model::Kind::kBalanced:
      return balanced_splitter(c.replicas, c.weights);
    case model::Kind::kWhole:
      return whole_splitter();
  }
  return nullptr;
}

}  // namespace torch_distinput
