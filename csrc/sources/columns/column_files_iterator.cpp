// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/column_files_iterator.h"

#include <exception>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {

void ColumnFilesIterator::open(const std::string& file, std::int64_t position) {
  parts_.reset();
  part_.reset();
  blocks_ = blocks_in_order(files_, file, finds_);
  ended_ = false;
  block_begin_ = block_end_ = 0;
  row_ = position;
  while (block_end_ <= position && next_block()) {
  }
  TORCH_CHECK_VALUE(position <= block_end_, op(), ": the saved position is after row ", position,
                    " of a file, but the file has ", block_end_, " rows.");
}

std::optional<Element> ColumnFilesIterator::read() {
  if (row_ == block_end_ && !next_block()) return std::nullopt;
  if (part_ == nullptr || row_ >= part_begin_ + part_->rows) begin_part();
  const std::int64_t row = row_ - part_begin_;
  const BlockRun run{part_, {&row, 1}, 0};
  Element element = std::move(elements_of_runs(*blocks_->type(), {&run, 1}, *host_pool()).front());
  ++row_;
  return element;
}

/// Goes to the next block; false at the end of the file, and after an error, which passes over what is left.
bool ColumnFilesIterator::next_block() {
  if (ended_) return false;
  const InterruptWatch watch;
  try {
    ended_ = !blocks_->next();
  } catch (const std::exception&) {
    ended_ = !watch.interrupt();
    rows_lost_ = 1;
    throw;
  }
  if (ended_) return false;
  block_begin_ = block_end_;
  block_end_ += blocks_->rows();
  return true;
}

/// Makes the rows from `row_` on. Where that throws, `row_` is after those that are lost.
void ColumnFilesIterator::begin_part() {
  part_.reset();
  if (parts_ && parts_->empty()) parts_.reset();
  if (!parts_ && begin_block()) return;
  rows_lost_ = 1;
  ++row_;
  part_ = parts_->next()->rows;
  part_begin_ = --row_;
}

/// Makes the present block as a whole and returns true, or begins its parts.
bool ColumnFilesIterator::begin_block() {
  const InterruptWatch watch;
  try {
    part_ = blocks_->block();
    part_begin_ = block_begin_;
    return true;
  } catch (const std::exception&) {
    if (watch.interrupt()) throw;
  }
  const std::int64_t before = row_;
  rows_lost_ = block_end_ - row_;
  row_ = block_end_;
  parts_.emplace(parts_of_block(*blocks_->type(), blocks_->source(), before - block_begin_));
  row_ = before;
  return false;
}

}  // namespace torch_distinput
