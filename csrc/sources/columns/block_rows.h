// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sources/columns/block_run.h"
#include "sources/columns/row_type.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

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
