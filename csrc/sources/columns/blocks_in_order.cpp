// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/blocks_in_order.h"

#include <cstddef>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace torch_distinput {
namespace {

class CountedBlocks final : public BlocksInOrder {
 public:
  CountedBlocks(std::shared_ptr<ColumnFiles> files, const std::string& file)
      : blocks_(std::move(files), {file}) {}

  bool next() override {
    if (next_ + 1 == blocks_.starts().size()) return false;
    ++next_;
    return true;
  }
  std::int64_t rows() const override { return blocks_.starts()[next_] - blocks_.starts()[next_ - 1]; }
  BlockPtr block() override {
    if (blocks_.is_remote() && !announced_) announce();
    return blocks_.block(next_ - 1);
  }
  BlockSource source() const override { return blocks_.source(next_ - 1); }
  const std::shared_ptr<const RowType>& type() const override { return blocks_.type(); }

 private:
  /// From the first block that is read on, all will be: a resumed epoch has passed over those before.
  void announce() {
    announced_ = true;
    std::vector<std::size_t> blocks(blocks_.starts().size() - next_);
    std::iota(blocks.begin(), blocks.end(), next_ - 1);
    blocks_.will_read(blocks);
  }

  FileBlocks blocks_;
  std::size_t next_ = 0;  ///< after the present block
  bool announced_ = false;
};

class FoundBlocks final : public BlocksInOrder {
 public:
  FoundBlocks(std::shared_ptr<ColumnFiles> files, const std::string& file,
              std::unique_ptr<BlockCursor> cursor)
      : files_(std::move(files)),
        place_(files_->place(file)),
        type_(files_->type(file)),
        cursor_(std::move(cursor)) {}

  bool next() override {
    while (const std::optional<std::int64_t> rows = cursor_->next()) {
      first_row_ += rows_;
      rows_ = *rows;
      ++block_;
      if (rows_ > 0) return true;
    }
    return false;
  }
  std::int64_t rows() const override { return rows_; }
  BlockPtr block() override { return whole_block(*type_, source()); }
  BlockSource source() const override {
    BlockCursor& cursor = *cursor_;
    return {
        .name = place_,
        .block = block_,
        .first_row = first_row_,
        .rows = rows_,
        .read = [&cursor](ArrowArrayStream* out) { cursor.read(out); },
        .read_rows = [&cursor](std::int64_t begin, std::int64_t end,
                               ArrowArrayStream* out) { cursor.read_rows(begin, end, out); },
    };
  }
  const std::shared_ptr<const RowType>& type() const override { return type_; }

 private:
  std::shared_ptr<ColumnFiles> files_;
  std::string place_;
  std::shared_ptr<const RowType> type_;
  std::unique_ptr<BlockCursor> cursor_;
  std::int64_t block_ = -1;  ///< the present one
  std::int64_t first_row_ = 0;
  std::int64_t rows_ = 0;
};

}  // namespace

std::unique_ptr<BlocksInOrder> blocks_in_order(std::shared_ptr<ColumnFiles> files, const std::string& file,
                                               bool finds) {
  std::unique_ptr<BlockCursor> cursor = finds ? files->reader().open(file) : nullptr;
  if (cursor == nullptr) return std::make_unique<CountedBlocks>(std::move(files), file);
  return std::make_unique<FoundBlocks>(std::move(files), file, std::move(cursor));
}

}  // namespace torch_distinput
