// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/file_blocks.h"

#include <algorithm>
#include <utility>

#include "sources/columns/arrow_owned.h"
#include "sources/columns/read_at_once.h"
#include "sources/records/url_names.h"
#include "torch_distinput/storage.h"

namespace torch_distinput {
namespace {

/// To start threads for fewer blocks would take a good part of the time that they save.
constexpr std::size_t kFewestForThreads = 4;

}  // namespace

ColumnFiles::ColumnFiles(std::shared_ptr<const BlockReader> reader, ColumnOptions options)
    : reader_(std::move(reader)), options_(std::move(options)) {}

std::string ColumnFiles::place(const std::string& file) const { return name() + ": " + shown_name(file); }

std::shared_ptr<const RowType> ColumnFiles::type(const std::string& file) {
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

std::int64_t ColumnFiles::number(const std::string& file) {
  const std::lock_guard lock(mutex_);
  return numbers_.try_emplace(file, std::ssize(numbers_)).first->second;
}

FileBlocks::FileBlocks(std::shared_ptr<ColumnFiles> files, std::vector<std::string> names,
                       std::size_t threads)
    : files_(std::move(files)),
      names_(std::move(names)),
      is_remote_(std::any_of(names_.begin(), names_.end(), names_object)),
      threads_(threads),
      ahead_([this](std::span<const std::size_t> blocks, std::int64_t bytes) { return ask(blocks, bytes); }) {
  const auto counts = files_->reader().count_rows(names_);
  for (std::size_t file = 0; file < names_.size(); ++file) {
    const std::int64_t number = files_->number(names_[file]);
    std::int64_t first_row = 0;
    for (std::size_t block = 0; block < counts[file].size(); ++block) {
      const std::int64_t rows = counts[file][block];
      if (rows == 0) continue;
      places_.push_back({file, number, static_cast<std::int64_t>(block), first_row});
      starts_.push_back(starts_.back() + rows);
      first_row += rows;
    }
  }
  // After the rows are counted: a reader knows more of its files then, and need not read them for their type.
  type_ = files_->type(names_.front());
}

BlockSource FileBlocks::source(std::size_t index) const {
  const Place& place = places_[index];
  const std::string& file = names_[place.file];
  const BlockReader& reader = files_->reader();
  BlockSource source{
      .name = files_->place(file),
      .block = place.block,
      .first_row = place.first_row,
      .rows = starts_[index + 1] - starts_[index],
      .read = [&reader, &file, block = place.block](ArrowArrayStream* out) { reader.read(file, block, out); },
      .read_rows = nullptr,
  };
  if (reader.reads_rows()) {
    source.read_rows = [&reader, &file, block = place.block](std::int64_t begin, std::int64_t end,
                                                             ArrowArrayStream* out) {
      reader.read_rows(file, block, begin, end, out);
    };
  }
  return source;
}

SourceRow FileBlocks::source_row(std::int64_t row) const {
  const auto after = std::upper_bound(starts_.begin(), starts_.end(), row);
  const auto index = static_cast<std::size_t>(after - starts_.begin()) - 1;
  return {0, names_[places_[index].file], places_[index].first_row + row - starts_[index]};
}

BlockPtr FileBlocks::block(std::size_t index) const {
  const Place& place = places_[index];
  const auto read = [&] {
    return files_->block(place.number, place.block, [&] {
      return is_scattered_ ? scattered_block(*type_, source(index)) : whole_block(*type_, source(index));
    });
  };
  return is_remote_ ? ahead_.read(index, read) : read();
}

/// The first batches of a shuffle need a block each for most of their rows. Of remote files, many threads
/// read batches anyway.
std::vector<BlockPtr> FileBlocks::blocks(std::span<const std::size_t> indices) const {
  if (is_remote_) return BlockSet::blocks(indices);
  std::vector<BlockPtr> found;
  found.reserve(indices.size());
  std::vector<std::size_t> missing;  // places in `found`
  for (const std::size_t index : indices) {
    found.push_back(files_->kept(places_[index].number, places_[index].block));
    if (found.back() == nullptr) missing.push_back(found.size() - 1);
  }
  const auto read = [&](std::size_t i) { found[missing[i]] = block(indices[missing[i]]); };
  std::unique_lock helped(helped_, std::defer_lock);
  const bool has_helpers = missing.size() >= kFewestForThreads && helped.try_lock();
  read_at_once(missing.size(), has_helpers ? threads_ : 0, read);
  for (std::size_t i = 0; i < missing.size(); ++i) {
    if (found[missing[i]] == nullptr) read(i);
  }
  return found;
}

void FileBlocks::will_read(std::span<const std::size_t> blocks) const {
  ahead_.announce(
      blocks, [this](std::size_t index) { return files_->has(places_[index].number, places_[index].block); });
}

/// As BlockAhead::Ask: those of one file together.
std::vector<std::int64_t> FileBlocks::ask(std::span<const std::size_t> blocks, std::int64_t bytes) const {
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

}  // namespace torch_distinput
