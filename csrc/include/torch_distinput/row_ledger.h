// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// Which epoch a `RowLedger` is of.
struct LedgerEpoch {
  std::int64_t epoch = 0;                  ///< at least 0
  std::optional<std::uint64_t> seed = {};  ///< as in `IterateOptions`
  /// A position that an iterator of the same dataset saved; null: none. What was excluded up to there is left
  /// out from where it was excluded on. Weights that were set hold in the epoch of the position from where
  /// they were set on, in later epochs throughout, in earlier ones not.
  State position = {};
};

/// Which rows of the sources are in each step of an epoch: arithmetic, which reads no rows. A source numbers
/// its rows in its own order, before any op; where an op has several inputs, the rows of the second are
/// numbered after all those of the first, and so on. Datasets make it. Cheap to copy; safe from any thread.
class TDI_API RowLedger {
 public:
  struct Impl;  ///< private to the library
  explicit RowLedger(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

  /// Steps of the epoch, or `kEndless`.
  std::int64_t num_steps() const;
  /// The rows that replica `replica`, numbered over all processes, gets in step `step`, in order, with those
  /// that the tail repeats. An element that is made of several rows has all of them. Throws c10::IndexError
  /// for a step or replica that does not exist.
  std::vector<std::int64_t> rows(std::int64_t step, std::int64_t replica = 0) const;
  /// The element of the pipeline that has row `row`, the first one if several have it, made as in the epoch,
  /// with the same random numbers. `unbatched`: the row of a batch instead of the batch. Looks for the row
  /// in all positions of the epoch. Throws c10::IndexError for a row that is not in the epoch, and what
  /// making the element throws.
  Element rebuild(std::int64_t row, bool unbatched = false) const;
  /// Where source row `row` lies, without reading it: its file and the record there. Throws c10::IndexError
  /// for a number that no row has, and c10::ValueError where `repeat` draws the order of files in each round.
  SourceRow locate(std::int64_t row) const;
  /// The last nodes of the pipelines that it asks.
  std::vector<NodePtr> pipelines() const;

 private:
  std::shared_ptr<const Impl> impl_;
};

}  // namespace torch_distinput
