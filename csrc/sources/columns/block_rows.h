// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sources/columns/column_type.h"
#include "sources/columns/import_block.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

using BlockPtr = std::shared_ptr<const RowBlock>;

/// What elements are made of: which leaves of a block become which leaves of an element.
struct RowType {
  struct LeafSource {
    std::vector<std::size_t> stored;  ///< leaves of a block; several are put side by side
  };

  TableType table;
  ElementSpec spec;                 ///< of an element
  std::vector<LeafSource> sources;  ///< one for each leaf of `spec`
  RowLayout layout;                 ///< REQUIRES: `dense`
  bool dense = false;               ///< whether all leaves have a static dense layout
};

/// The elements of rows of `schema`. Throws as `table_type`, and c10::ValueError for stacks of columns that
/// are not there or no numbers.
std::shared_ptr<const RowType> row_type(const ArrowSchema& schema, const ColumnOptions& options,
                                        const std::string& op);

/// Rows `rows` of `block`; they are rows `first`, `first` + 1, ... of what is made, or those in the same
/// places of `slots`.
struct BlockRun {
  BlockPtr block;
  std::span<const std::int64_t> rows;
  std::int64_t first;
};

/// Writes the rows of `runs` to sinks, row i to `slots[i]`, or to row i if `slots` is empty. REQUIRES:
/// `type.dense`.
void gather_runs(const RowType& type, std::span<const BlockRun> runs, std::span<const std::int64_t> slots,
                 std::span<const RowSink> sinks);
/// The rows of `runs` as one element, in memory of `pool`. Lists must be of one length. Throws
/// c10::ValueError naming `op` and the leaf if they are not.
Element batch_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool,
                      const std::string& op);
/// As `batch_of_runs`, but lists that vary in length become ragged leaves.
Element ragged_batch_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool);
/// Whether each leaf of an element is a list that varies in length.
std::vector<bool> lists_of(const RowType& type);
/// Each row of `runs` as an element of its own.
std::vector<Element> elements_of_runs(const RowType& type, std::span<const BlockRun> runs, BufferPool& pool);

}  // namespace torch_distinput
