// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/arrays/row_files.h"

#include <algorithm>
#include <utility>

#include "io/file_error.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

/// Open files of one plan: few enough that several iterators stay below a process's usual limit of 1024.
constexpr std::size_t kMaxOpenRowFiles = 64;

}  // namespace

RowFiles::RowFiles(std::vector<RowFilePtr> files)
    : files_(std::move(files)),
      begins_{0},
      handles_(std::make_unique<FileHandles>(kMaxOpenRowFiles)),
      is_remote_(std::any_of(files_.begin(), files_.end(),
                             [](const RowFilePtr& file) { return is_url(file->data_path); })) {
  for (const RowFilePtr& file : files_) begins_.push_back(rows_with(begins_.back(), *file));
}

RowFiles::Place RowFiles::place_of(std::int64_t position) const noexcept {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), position);
  const auto file = static_cast<std::size_t>(next - begins_.begin()) - 1;
  return {file, position - begins_[file]};
}

SourceRow RowFiles::source_row(std::int64_t position) const {
  const auto [file, row] = place_of(position);
  return {0, files_[file]->path, row};
}

FilePtr RowFiles::open(std::size_t file) const {
  const RowFile& known = *files_[file];
  FilePtr opened = handles_->get(static_cast<std::int64_t>(file), known.data_path);
  if (opened->stamp() != known.data_stamp) {
    throw FileError(FileError::Kind::kChanged, known.data_path,
                    "the file changed since its header was read; create the dataset again to read its new "
                    "contents");
  }
  return opened;
}

std::int64_t rows_with(std::int64_t before, const RowFile& file) {
  std::int64_t rows = 0;
  if (!__builtin_add_overflow(before, file.rows, &rows)) return rows;
  throw FileError(FileError::Kind::kDamaged, file.path,
                  "its " + std::to_string(file.rows) + " rows and the " + std::to_string(before) +
                      " of the files before it must be fewer than 2^63");
}

void read_whole(const File& file, std::span<char> into, std::uint64_t offset) {
  if (file.read(into, offset) == into.size()) return;
  throw FileError(FileError::Kind::kChanged, file.path(),
                  "the file became shorter after its header was read: it ends before byte " +
                      std::to_string(offset + into.size()));
}

}  // namespace torch_distinput
