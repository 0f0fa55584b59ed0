// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "core/interrupt_watch.h"
#include "execution/execution_context.h"
#include "runtime/buffer_pool.h"
#include "sources/columns/block_cache.h"
#include "sources/columns/blocks_plan.h"
#include "sources/columns/columns.h"
#include "sources/records/file_names.h"
#include "sources/records/files_iterator.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// What all nodes over the same reader share: the type of rows, and the blocks that were read.
class ColumnFiles {
 public:
  ColumnFiles(std::shared_ptr<const BlockReader> reader, ColumnOptions options)
      : reader_(std::move(reader)), options_(std::move(options)) {}

  const BlockReader& reader() const { return *reader_; }
  std::string name() const { return reader_->name(); }

  /// The type of rows: that of the file for which this was called first. Throws what reading it throws.
  std::shared_ptr<const RowType> type(const std::string& file) {
    {
      const std::lock_guard lock(mutex_);
      if (type_ != nullptr) return type_;
    }
    // Without the lock, because the reader may run Python.
    ArrowOwned<ArrowSchema> schema;
    reader_->schema(file, schema.get());
    auto type = row_type(*schema, options_, name() + ": " + file);
    const std::lock_guard lock(mutex_);
    if (type_ == nullptr) type_ = std::move(type);
    return type_;
  }

  /// Block `block` of `file`, which begins at row `first_row` of the file and has `rows` rows.
  BlockPtr block(const RowType& type, const std::string& file, std::int64_t block, std::int64_t first_row,
                 std::int64_t rows) {
    return cache_.get({file, block}, [&] {
      ArrowOwned<ArrowArrayStream> stream;
      reader_->read(file, block, stream.get());
      const std::string place = name() + ": " + file;
      ArrowOwned<ArrowSchema> schema;
      read_schema(stream.get(), schema, place);
      check_same_schema(*schema, type.table, place);
      const ArrowBatch batch = read_batch(stream.get(), place);
      const std::int64_t found = batch == nullptr ? 0 : (*batch)->length;
      if (found != rows || (batch != nullptr && read_batch(stream.get(), place) != nullptr)) {
        throw InvalidArgumentError(
            c10::str(place, ": block ", block, " has not the ", rows,
                     " rows that were counted; the file has changed, or its counts lie."));
      }
      return std::make_shared<const RowBlock>(import_block(type.table, batch, {place, first_row}));
    });
  }

 private:
  std::shared_ptr<const BlockReader> reader_;
  ColumnOptions options_;
  std::mutex mutex_;
  std::shared_ptr<const RowType> type_;
  BlockCache cache_{kBlockCacheBytes};
};

/// The blocks of several files; those without rows are left out.
class FileBlocks final : public BlockSet {
 public:
  FileBlocks(std::shared_ptr<ColumnFiles> files, std::vector<std::string> names,
             std::shared_ptr<const RowType> type)
      : files_(std::move(files)), names_(std::move(names)), type_(std::move(type)) {
    const auto counts = files_->reader().count_rows(names_);
    for (std::size_t file = 0; file < names_.size(); ++file) {
      std::int64_t first_row = 0;
      for (std::size_t block = 0; block < counts[file].size(); ++block) {
        const std::int64_t rows = counts[file][block];
        if (rows == 0) continue;
        places_.push_back({file, static_cast<std::int64_t>(block), first_row});
        starts_.push_back(starts_.back() + rows);
        first_row += rows;
      }
    }
  }

  const std::vector<std::int64_t>& starts() const override { return starts_; }
  BlockPtr block(std::size_t index) const override {
    const Place& place = places_[index];
    return files_->block(*type_, names_[place.file], place.block, place.first_row,
                         starts_[index + 1] - starts_[index]);
  }
  bool reads_files() const override { return true; }

 private:
  struct Place {
    std::size_t file;
    std::int64_t block;
    std::int64_t first_row;
  };
  std::shared_ptr<ColumnFiles> files_;
  std::vector<std::string> names_;
  std::shared_ptr<const RowType> type_;
  std::vector<Place> places_;
  std::vector<std::int64_t> starts_{0};
};

/// A block is read as a whole, or not at all: where it fails, all its rows are passed over.
class ColumnFilesIterator final : public FilesIterator {
 public:
  ColumnFilesIterator(IteratorPtr names, std::shared_ptr<ColumnFiles> files, const IterContext& context)
      : FilesIterator(std::move(names), files->name(), context), files_(std::move(files)) {}

 private:
  void open(const std::string& file, std::int64_t position) override {
    type_ = files_->type(file);
    blocks_.emplace(files_, std::vector<std::string>{file}, type_);
    const std::int64_t rows = blocks_->starts().back();
    TORCH_CHECK_VALUE(position <= rows, op(), ": the saved position is after row ", position,
                      " of a file, but the file has ", rows, " rows.");
    row_ = position;
  }
  std::optional<Element> read() override {
    const auto& starts = blocks_->starts();
    if (row_ == starts.back()) return std::nullopt;
    const auto end = std::upper_bound(starts.begin(), starts.end(), row_);
    const std::int64_t row = row_ - *(end - 1);
    row_ = *end;
    const BlockRun run{blocks_->block(static_cast<std::size_t>(end - starts.begin()) - 1), {&row, 1}, 0};
    Element element = std::move(elements_of_runs(*type_, {&run, 1}, *host_pool()).front());
    row_ = *(end - 1) + row + 1;
    return element;
  }
  std::int64_t position() const override { return row_; }

  std::shared_ptr<ColumnFiles> files_;
  std::shared_ptr<const RowType> type_;
  std::optional<FileBlocks> blocks_;  ///< of the file opened last
  std::int64_t row_ = 0;              ///< the next row of that file
};

class ColumnFilesNode final : public Node {
 public:
  ColumnFilesNode(NodePtr names, std::shared_ptr<ColumnFiles> files, bool index)
      : names_(std::move(names)), files_(std::move(files)), name_(files_->name()), index_(index) {}

  std::string_view name() const override { return name_; }
  std::string describe() const override { return name_ + "(" + files_->reader().arguments() + ")"; }
  std::vector<NodePtr> inputs() const override { return {names_}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<ColumnFilesNode>(std::move(inputs.at(0)), files_, index_);
  }

  SpecPtr spec() const override {
    const auto name = names_->iterate(context_to_ask(*names_))->next();
    if (!name) return nullptr;
    const auto type = files_->type(file_name_of(*name, name_));
    return {type, &type->spec};
  }
  std::int64_t cardinality() const override {
    // Counted at each call: the reader knows which files have changed since.
    const InterruptWatch watch;
    try {
      return count();
    } catch (const std::exception&) {
      if (watch.interrupt()) throw;
      return kUnknownCardinality;
    }
  }
  void check_sources() const override {
    names_->check_sources();
    count();
  }
  Traits traits() const override { return {.reader = true, .fallible = true}; }
  std::vector<const UserCode*> user_code() const override { return {&files_->reader()}; }

  PlanPtr plan(const IterContext& context) const override {
    if (!index_ || context.execution->options.skip) return nullptr;
    auto names = list_names(*names_, context.input(0), name_);
    if (!names || names->empty()) return nullptr;
    auto type = files_->type(names->front());
    auto blocks = std::make_shared<const FileBlocks>(files_, *std::move(names), type);
    return blocks_plan(std::move(blocks), std::move(type), context.execution->pool, name_);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ColumnFilesIterator>(names_->iterate(context.input(0)), files_, context);
  }

 private:
  std::int64_t count() const {
    if (!index_ || !same_files_each_epoch(*names_)) return kUnknownCardinality;
    const auto names = list_names(*names_, context_to_ask(*names_), name_);
    if (!names) return kUnknownCardinality;
    std::int64_t rows = 0;
    for (const auto& blocks : files_->reader().count_rows(*names)) {
      for (const std::int64_t block : blocks) rows += block;
    }
    return rows;
  }

  NodePtr names_;
  std::shared_ptr<ColumnFiles> files_;
  std::string name_;
  bool index_;
};

}  // namespace

namespace sources {

NodePtr column_files(NodePtr names, std::shared_ptr<const BlockReader> reader, const ColumnOptions& options,
                     bool index) {
  TORCH_CHECK_VALUE(reader != nullptr, "from_blocks: `reader` must not be null.");
  check_file_names(*names, reader->name());
  return std::make_shared<ColumnFilesNode>(std::move(names),
                                           std::make_shared<ColumnFiles>(std::move(reader), options), index);
}

}  // namespace sources
}  // namespace torch_distinput
