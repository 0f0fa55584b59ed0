// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sources/columns/block_run.h"
#include "sources/columns/row_type.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

class BufferPool;

/// Blocks of rows, in order. Immutable; safe from any thread.
class BlockSet {
 public:
  virtual ~BlockSet() = default;
  /// The rows before each block, and the number of all rows at the end.
  virtual const std::vector<std::int64_t>& starts() const = 0;
  /// As `Plan::source_row`.
  virtual SourceRow source_row(std::int64_t row) const = 0;
  /// Block `index`; may wait for a file and throw its error.
  virtual BlockPtr block(std::size_t index) const = 0;
  /// Several blocks, as `block`, in that order.
  virtual std::vector<BlockPtr> blocks(std::span<const std::size_t> indices) const;
  /// Whether `block` reads files, so that not all blocks can be held at once.
  virtual bool reads_files() const = 0;
  /// Keeps as many blocks as that, whatever their bytes.
  virtual void keep(std::int64_t) const {}
  /// Rows in random order are read from now on: blocks that are read later may lie in memory as suits that.
  virtual void scatter() const {}
  /// Whether it does so over a network.
  virtual bool is_remote() const { return false; }
  /// These blocks will be read soon, in this order: asks for them without waiting. Called where `is_remote`.
  virtual void will_read(std::span<const std::size_t>) const {}
};

/// Random access to the rows of `blocks`. A block of a file is fetched once for each call, however its rows
/// are spread over the positions. `op` is for messages.
PlanPtr blocks_plan(std::shared_ptr<const BlockSet> blocks, std::shared_ptr<const RowType> type,
                    std::shared_ptr<BufferPool> pool, std::string op);

}  // namespace torch_distinput
