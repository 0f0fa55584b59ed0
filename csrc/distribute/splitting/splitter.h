// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "distribute/splitting/part.h"

namespace torch_distinput {

/// `count` sizes that add up to `rows` and differ by at most one, the larger ones first.
std::vector<std::int64_t> even_shares(std::int64_t rows, std::int64_t count);

/// Cuts a sequence of elements into a sequence of parts, by arithmetic on row counts alone: the two paths
/// differ only in how they fetch the rows of a part. Immutable; safe from any thread.
///
/// Parts come in rounds of `parts()` parts. A round is one element, or, for sizes taken in turn, one pass
/// over the sizes.
class Splitter {
 public:
  virtual ~Splitter() = default;

  /// The next `count` parts, fewer only at the end of the data. Advances `split`; when `counts` throws,
  /// `split` stays.
  virtual std::vector<Part> assign(SplitPosition& split, RowCounts& counts, std::int64_t count) const = 0;

  /// Number of parts in a round.
  virtual std::int64_t parts() const = 0;
  /// Number of rows in a round; nullopt: a round is one element, whatever its rows.
  virtual std::optional<std::int64_t> round_rows() const = 0;

  /// The rows of parts [first, first + count) (modulo the round) of a full batch of `batch` rows.
  virtual std::vector<std::int64_t> shares(std::int64_t batch, std::int64_t first,
                                           std::int64_t count) const = 0;

  /// How `count` parts share the `rows` rows of a step that `kMerge` deals out anew: each gets at least one
  /// row. In order, sizes that differ by at most one, except where shares are weighted. REQUIRES: `rows >=
  /// count`.
  virtual std::vector<std::int64_t> shares_for_all(std::int64_t rows, std::int64_t count) const {
    return even_shares(rows, count);
  }

  /// Whether leaves with different numbers of rows are each cut by themselves; if not, they are refused.
  virtual bool cuts_leaves() const { return false; }

  /// A text such as `legacy(num_replicas=2)`. Positions are valid for every splitter with an equal text.
  virtual std::string describe() const = 0;
};
using SplitterPtr = std::shared_ptr<const Splitter>;

/// Cuts every element by itself, in `num_replicas` parts of ceil(rows / num_replicas); the last ones may be
/// short or empty. Leaves with different numbers of rows are each cut by their own.
SplitterPtr legacy_splitter(std::int64_t num_replicas);

/// Takes parts of `sizes` rows in turn, across the borders of elements. Ends after a short part; a size of 0
/// gives a part without rows even after the last row. REQUIRES: not all sizes are 0.
SplitterPtr v2_splitter(std::vector<std::int64_t> sizes);

/// Cuts every element by itself, contiguously and in order, in parts that differ by at most one row. With
/// `weights`, one positive number for each replica, parts are in proportion to them, rounded by largest
/// remainder, ties to the lower replica.
SplitterPtr balanced_splitter(std::int64_t num_replicas, std::vector<double> weights);

/// Makes every element one part.
SplitterPtr whole_splitter();

}  // namespace torch_distinput
