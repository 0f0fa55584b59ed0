// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "torch_distinput/node.h"
#include "torch_distinput/spec.h"

namespace torch_distinput {

/// Throws c10::ValueError naming `op` and the leaf where elements of this spec cannot be batches of rows: a
/// scalar leaf, or leaves with different numbers of rows.
void check_batch_spec(const ElementSpec& spec, std::string_view op);

/// The spec of `node`, or null where users' code would have to run to know it.
SpecPtr quiet_spec(const Node& node);

/// `check_batch_spec` for the elements of `input`, where their spec is known without running users' code.
void check_batches(const Node& input, std::string_view op);

/// Reads batches from an iterator and counts which rows of the current batch are used. One thread at a time.
class BatchReader {
 public:
  /// `op` names the reading op in messages and must outlive this object.
  BatchReader(IteratorPtr input, std::string_view op);

  /// Reads the next batch, with all its rows left; false at the end of the input. Throws c10::ValueError
  /// naming the leaf where it is a scalar, or where the leaves have different numbers of rows.
  bool read();

  /// Whether a batch was ever read.
  bool has_batch() const noexcept { return batch_.has_value(); }
  /// The batch last read, valid until the next `read` or `load`. REQUIRES: `has_batch()`.
  const Element& batch() const { return *batch_; }
  /// Rows of that batch that are not used yet.
  std::int64_t rows_left() const noexcept { return rows_ - row_; }
  /// Uses `count` rows and returns the index of the first. REQUIRES: that many are left.
  std::int64_t advance(std::int64_t count);

  /// The input's position before the current batch, and its rows used. `load` reads the batch again; it
  /// throws c10::ValueError for a damaged state.
  State save() const;
  void load(const State& state);

 private:
  IteratorPtr input_;
  std::string_view op_;
  State before_;                  ///< position of the input before `batch_`
  std::optional<Element> batch_;  ///< the last one read, also when its rows are used up
  std::int64_t rows_ = 0;
  std::int64_t row_ = 0;
};

}  // namespace torch_distinput
