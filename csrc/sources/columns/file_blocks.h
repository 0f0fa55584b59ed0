// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "sources/columns/block_ahead.h"
#include "sources/columns/block_cache.h"
#include "sources/columns/block_source.h"
#include "sources/columns/blocks_plan.h"
#include "torch_distinput/columns.h"

namespace torch_distinput {

/// What all nodes over the same reader share: the type of rows, and the blocks that were read. Safe from any
/// thread.
class ColumnFiles {
 public:
  ColumnFiles(std::shared_ptr<const BlockReader> reader, ColumnOptions options);

  const BlockReader& reader() const { return *reader_; }
  std::string name() const { return reader_->name(); }
  /// A file in messages.
  std::string place(const std::string& file) const;

  /// The type of rows: that of the file for which this was called first. Throws what reading it throws.
  std::shared_ptr<const RowType> type(const std::string& file);

  /// The number of a file among those of this reader.
  std::int64_t number(const std::string& file);
  /// Block `block` of the file with number `file` where it is kept, else null.
  BlockPtr kept(std::int64_t file, std::int64_t block) { return cache_.kept({file, block}); }
  /// Whether it is kept, or being read.
  bool has(std::int64_t file, std::int64_t block) { return cache_.has({file, block}); }
  /// As `BlockCache::keep`.
  void keep(std::int64_t blocks) { cache_.keep(blocks); }
  /// Block `block` of the file with number `file`, which `read` makes where it is not kept; as
  /// `BlockCache::get`.
  BlockPtr block(std::int64_t file, std::int64_t block, const std::function<BlockPtr()>& read) {
    return cache_.get({file, block}, read);
  }

 private:
  std::shared_ptr<const BlockReader> reader_;
  ColumnOptions options_;
  std::mutex mutex_;
  std::shared_ptr<const RowType> type_;
  std::unordered_map<std::string, std::int64_t> numbers_;
  BlockCache cache_{kBlockCacheBytes};
};

/// The blocks of several files, which are counted beforehand; those without rows are left out.
class FileBlocks final : public BlockSet {
 public:
  /// Blocks that a caller wants together are read by it and up to `threads` other threads. REQUIRES: `names`
  /// is not empty.
  FileBlocks(std::shared_ptr<ColumnFiles> files, std::vector<std::string> names, std::size_t threads = 0);

  const std::shared_ptr<const RowType>& type() const { return type_; }
  /// How block `index` is read. REQUIRES: this outlives the source.
  BlockSource source(std::size_t index) const;

  const std::vector<std::int64_t>& starts() const override { return starts_; }
  SourceRow source_row(std::int64_t row) const override;
  BlockPtr block(std::size_t index) const override;
  std::vector<BlockPtr> blocks(std::span<const std::size_t> indices) const override;
  bool reads_files() const override { return true; }
  void keep(std::int64_t blocks) const override { files_->keep(blocks); }
  void scatter() const override { is_scattered_ = true; }
  bool is_remote() const override { return is_remote_; }
  void will_read(std::span<const std::size_t> blocks) const override;

 private:
  struct Place {
    std::size_t file;
    std::int64_t number;  ///< of the file among those of the reader
    std::int64_t block;
    std::int64_t first_row;  ///< the rows of the file before it
  };

  std::vector<std::int64_t> ask(std::span<const std::size_t> blocks, std::int64_t bytes) const;

  std::shared_ptr<ColumnFiles> files_;
  std::vector<std::string> names_;
  std::shared_ptr<const RowType> type_;
  std::vector<Place> places_;
  std::vector<std::int64_t> starts_{0};
  bool is_remote_;
  std::size_t threads_;
  mutable std::mutex helped_;  ///< one caller at a time has helpers
  mutable std::atomic<bool> is_scattered_ = false;
  mutable BlockAhead ahead_;
};

}  // namespace torch_distinput
