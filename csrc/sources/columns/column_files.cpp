// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_watch.h"
#include "execution/execution_context.h"
#include "execution/reads_files.h"
#include "runtime/buffer_pool.h"
#include "sources/columns/block_ahead.h"
#include "sources/columns/block_cache.h"
#include "sources/columns/block_parts.h"
#include "sources/columns/blocks_plan.h"
#include "sources/columns/columns.h"
#include "sources/records/file_names.h"
#include "sources/records/files_iterator.h"
#include "sources/records/url_names.h"
#include "torch_distinput/error.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {
namespace {

/// Where a block lies.
struct BlockOfFile {
  std::string file;
  std::int64_t block;
  std::int64_t first_row;  ///< the rows of the file before it
  std::int64_t rows;
};

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
    auto type = row_type(*schema, options_, place(file));
    const std::lock_guard lock(mutex_);
    if (type_ == nullptr) type_ = std::move(type);
    return type_;
  }

  /// Whether block `block` of `file` is kept, or being read.
  bool has(const std::string& file, std::int64_t block) { return cache_.has({file, block}); }

  void keep(std::int64_t blocks) { cache_.keep(blocks); }

  BlockPtr block(const RowType& type, const BlockOfFile& at) {
    return cache_.get({at.file, at.block}, [&] {
      return std::make_shared<const RowBlock>(
          import_block(type.table, whole(type, at), {place(at.file), at.first_row}));
    });
  }

  /// The rows of a block from row `begin` of it on, apart from one another as far as the reader can.
  /// REQUIRES: `type` and this outlive the parts.
  BlockParts parts(const RowType& type, const BlockOfFile& at, std::int64_t begin) {
    if (reader_->reads_rows()) {
      return {begin, at.rows, [this, &type, at](std::int64_t from, std::int64_t to) {
                const ArrowBatch batch = some(type, at, from, to);
                return std::make_shared<const RowBlock>(
                    import_block(type.table, batch, {place(at.file), at.first_row + from}));
              }};
    }
    return {begin, at.rows, [this, &type, at, batch = whole(type, at)](std::int64_t from, std::int64_t to) {
              return std::make_shared<const RowBlock>(
                  import_rows(type.table, batch, {place(at.file), at.first_row}, from, to));
            }};
  }

 private:
  /// A file in messages.
  std::string place(const std::string& file) const { return name() + ": " + shown_name(file); }

  /// All rows of a block, unchecked.
  ArrowBatch whole(const RowType& type, const BlockOfFile& at) const {
    ArrowOwned<ArrowArrayStream> stream;
    reader_->read(at.file, at.block, stream.get());
    return batch_of(stream.get(), type, at, at.rows);
  }
  /// Rows [`begin`, `end`) of a block, unchecked.
  ArrowBatch some(const RowType& type, const BlockOfFile& at, std::int64_t begin, std::int64_t end) const {
    ArrowOwned<ArrowArrayStream> stream;
    reader_->read_rows(at.file, at.block, begin, end, stream.get());
    return batch_of(stream.get(), type, at, end - begin);
  }

  /// The only array of `stream`, which has `rows` rows.
  ArrowBatch batch_of(ArrowArrayStream* stream, const RowType& type, const BlockOfFile& at,
                      std::int64_t rows) const {
    ArrowOwned<ArrowSchema> schema;
    read_schema(stream, schema, place(at.file));
    check_same_schema(*schema, type.table, place(at.file));
    ArrowBatch batch = read_batch(stream, place(at.file));
    const std::int64_t found = batch == nullptr ? 0 : (*batch)->length;
    if (found != rows || (batch != nullptr && read_batch(stream, place(at.file)) != nullptr)) {
      throw InvalidArgumentError(
          c10::str(place(at.file), ": block ", at.block, " has not the ", rows,
                   " rows that were counted; the file has changed, or its counts lie."));
    }
    return batch;
  }

  std::shared_ptr<const BlockReader> reader_;
  ColumnOptions options_;
  std::mutex mutex_;
  std::shared_ptr<const RowType> type_;
  BlockCache cache_{kBlockCacheBytes};
};

/// The blocks of several files; those without rows are left out.
class FileBlocks final : public BlockSet {
 public:
  /// REQUIRES: `names` is not empty.
  FileBlocks(std::shared_ptr<ColumnFiles> files, std::vector<std::string> names)
      : files_(std::move(files)),
        names_(std::move(names)),
        is_remote_(std::any_of(names_.begin(), names_.end(), names_object)),
        ahead_(
            [this](std::span<const std::size_t> blocks, std::int64_t bytes) { return ask(blocks, bytes); }) {
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
    // After the rows are counted: a reader knows more of its files then, and need not read them for their
    // type.
    type_ = files_->type(names_.front());
  }

  const std::shared_ptr<const RowType>& type() const { return type_; }

  const std::vector<std::int64_t>& starts() const override { return starts_; }
  SourceRow source_row(std::int64_t row) const override {
    const auto after = std::upper_bound(starts_.begin(), starts_.end(), row);
    const auto index = static_cast<std::size_t>(after - starts_.begin()) - 1;
    return {0, names_[places_[index].file], places_[index].first_row + row - starts_[index]};
  }
  BlockPtr block(std::size_t index) const override {
    if (!is_remote_) return files_->block(*type_, place(index));
    return ahead_.read(index, [&] { return files_->block(*type_, place(index)); });
  }
  /// Where block `index` lies.
  BlockOfFile place(std::size_t index) const {
    const Place& place = places_[index];
    return {names_[place.file], place.block, place.first_row, starts_[index + 1] - starts_[index]};
  }
  bool reads_files() const override { return true; }
  void keep(std::int64_t blocks) const override { files_->keep(blocks); }
  bool is_remote() const override { return is_remote_; }
  void will_read(std::span<const std::size_t> blocks) const override {
    ahead_.announce(blocks, [this](std::size_t index) {
      return files_->has(names_[places_[index].file], places_[index].block);
    });
  }

 private:
  struct Place {
    std::size_t file;
    std::int64_t block;
    std::int64_t first_row;
  };

  /// As BlockAhead::Ask: those of one file together.
  std::vector<std::int64_t> ask(std::span<const std::size_t> blocks, std::int64_t bytes) const {
    const std::size_t file = places_[blocks.front()].file;
    std::vector<std::int64_t> numbers;
    for (const std::size_t index : blocks) {
      if (places_[index].file != file) break;
      numbers.push_back(places_[index].block);
    }
    std::vector<std::int64_t> sizes = files_->reader().will_read(names_[file], numbers, bytes);
    if (sizes.empty()) sizes.assign(numbers.size(), 0);
    return sizes;
  }

  std::shared_ptr<ColumnFiles> files_;
  std::vector<std::string> names_;
  std::shared_ptr<const RowType> type_;
  std::vector<Place> places_;
  std::vector<std::int64_t> starts_{0};
  bool is_remote_;
  mutable BlockAhead ahead_;
};

/// Where a block fails, its rows are looked at apart from one another, and the error is that of the first bad
/// one. All its rows are lost where the reader cannot read the block itself.
class ColumnFilesIterator final : public FilesIterator {
 public:
  ColumnFilesIterator(IteratorPtr names, std::shared_ptr<ColumnFiles> files, const IterContext& context)
      : FilesIterator(std::move(names), files->name(), context), files_(std::move(files)) {}

 private:
  void open(const std::string& file, std::int64_t position) override {
    parts_.reset();
    part_.reset();
    blocks_.emplace(files_, std::vector<std::string>{file});
    type_ = blocks_->type();
    const std::int64_t rows = blocks_->starts().back();
    TORCH_CHECK_VALUE(position <= rows, op(), ": the saved position is after row ", position,
                      " of a file, but the file has ", rows, " rows.");
    row_ = position;
    if (blocks_->is_remote() && position < rows) announce_from(position);
  }
  std::optional<Element> read() override {
    if (row_ == blocks_->starts().back()) return std::nullopt;
    if (part_ == nullptr || row_ >= part_begin_ + part_->rows) begin_part();
    const std::int64_t row = row_ - part_begin_;
    const BlockRun run{part_, {&row, 1}, 0};
    Element element = std::move(elements_of_runs(*type_, {&run, 1}, *host_pool()).front());
    ++row_;
    return element;
  }
  std::int64_t rows_lost() const override { return rows_lost_; }
  std::int64_t position() const override { return row_; }

  /// All blocks from row `row` on will be read, one after the other. REQUIRES: there is such a row.
  void announce_from(std::int64_t row) {
    const auto& starts = blocks_->starts();
    const auto next = std::upper_bound(starts.begin(), starts.end() - 1, row);
    std::vector<std::size_t> blocks(static_cast<std::size_t>(starts.end() - next));
    std::iota(blocks.begin(), blocks.end(), static_cast<std::size_t>(next - starts.begin()) - 1);
    blocks_->will_read(blocks);
  }

  /// Makes the rows from `row_` on. Where that throws, `row_` is after those that are lost.
  void begin_part() {
    part_.reset();
    if (parts_ && parts_->empty()) parts_.reset();
    if (!parts_ && begin_block()) return;
    rows_lost_ = 1;
    ++row_;
    part_ = parts_->next()->rows;
    part_begin_ = --row_;
  }

  /// Makes the block with row `row_` as a whole and returns true, or begins its parts.
  bool begin_block() {
    const auto& starts = blocks_->starts();
    const auto end = std::upper_bound(starts.begin(), starts.end(), row_);
    const BlockOfFile block = blocks_->place(static_cast<std::size_t>(end - starts.begin()) - 1);
    const InterruptWatch watch;
    try {
      part_ = files_->block(*type_, block);
      part_begin_ = block.first_row;
      return true;
    } catch (const std::exception&) {
      if (watch.interrupt()) throw;
    }
    const std::int64_t before = row_;
    rows_lost_ = *end - row_;
    row_ = *end;
    parts_.emplace(files_->parts(*type_, block, before - block.first_row));
    row_ = before;
    return false;
  }

  std::shared_ptr<ColumnFiles> files_;
  std::shared_ptr<const RowType> type_;
  std::optional<FileBlocks> blocks_;  ///< of the file opened last
  std::int64_t row_ = 0;              ///< the next row of that file
  BlockPtr part_;                     ///< rows of that file that lie together
  std::int64_t part_begin_ = 0;       ///< the number of their first one in the file
  std::optional<BlockParts> parts_;   ///< the rest of a block that failed as a whole
  std::int64_t rows_lost_ = 1;        ///< by the last error of `read`
};

class ColumnFilesNode final : public Node, public ReadsFiles {
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
  Traits traits() const override { return {.sharding = {.reader = true}, .rows = {.fallible = true}}; }
  std::vector<const UserCode*> user_code() const override { return {&files_->reader()}; }

  PlanPtr plan(const IterContext& context) const override {
    if (!index_ || context.execution->options.skip) return nullptr;
    auto names = list_names(*names_, context.input(0), name_);
    if (!names || names->empty()) return nullptr;
    auto blocks = std::make_shared<const FileBlocks>(files_, *std::move(names));
    auto type = blocks->type();
    return blocks_plan(std::move(blocks), std::move(type), context.execution->pool, name_);
  }
  IteratorPtr iterate(const IterContext& context) const override {
    return std::make_unique<ColumnFilesIterator>(names_->iterate(context.input(0)), files_, context);
  }

  std::optional<std::vector<std::string>> files(const IterContext& context) const override {
    return list_names(*names_, context.input(0), name_);
  }
  bool lacks_index(const IterContext& context) const override {
    if (!index_ || context.execution->options.skip) return false;
    const auto names = files(context);
    return names && files_->reader().lacks_index(*names);
  }
  bool reads_blocks() const override { return index_; }
  void announce_blocks(const IterContext& context) const override {
    const auto names = files(context);
    if (!names) return;
    const auto counts = files_->reader().count_rows(*names);
    for (std::size_t file = 0; file < names->size(); ++file) announce(names->at(file), counts[file].size());
  }

 private:
  /// Announces all blocks of a file, as many together as are read ahead.
  void announce(const std::string& file, std::size_t count) const {
    if (!names_object(file)) return;
    std::vector<std::int64_t> blocks(count);
    std::iota(blocks.begin(), blocks.end(), 0);
    while (!blocks.empty()) {
      const std::size_t asked = files_->reader().will_read(file, blocks, BlockAhead::kBytes).size();
      if (asked == 0) return;
      blocks.erase(blocks.begin(), blocks.begin() + static_cast<std::ptrdiff_t>(std::min(asked, count)));
    }
  }

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
