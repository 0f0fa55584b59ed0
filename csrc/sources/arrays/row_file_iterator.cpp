// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <c10/util/Exception.h>

#include "execution/element_reader.h"
#include "execution/execution_context.h"
#include "sources/arrays/row_files_node.h"
#include "sources/records/file_errors.h"
#include "sources/records/files_iterator.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

class RowFileIterator final : public FilesIterator {
 public:
  RowFileIterator(IteratorPtr names, std::shared_ptr<const RowFormat> format, const IterContext& context)
      : FilesIterator(std::move(names), format->name(), context),
        format_(std::move(format)),
        execution_(context.execution) {}

 private:
  void open(const std::string& path, std::int64_t position) override {
    with_file_errors(op(), [&] {
      RowFilePtr file = format_->open(path, interrupt_check());
      if (!first_) first_ = file;
      check_same_rows(*first_, *file);
      format_->check(*file);
      rows_.emplace(format_->plan({std::move(file)}, execution_->pool), execution_->options);
    });
    TORCH_CHECK_VALUE(position <= rows_->size(), op(), ": the saved position is after row ", position,
                      " of a file, but the file has ", rows_->size(), " rows.");
    row_ = position;
  }
  std::optional<Element> read() override {
    if (row_ == rows_->size()) return std::nullopt;
    return rows_->fetch(row_++);
  }
  std::int64_t position() const override { return row_; }

  std::shared_ptr<const RowFormat> format_;
  std::shared_ptr<const ExecutionContext> execution_;
  RowFilePtr first_;                   ///< the first file that was opened: the others have rows of its type
  std::optional<ElementReader> rows_;  ///< of the file opened last
  std::int64_t row_ = 0;
};

}  // namespace

IteratorPtr row_file_iterator(IteratorPtr names, std::shared_ptr<const RowFormat> format,
                              const IterContext& context) {
  return std::make_unique<RowFileIterator>(std::move(names), std::move(format), context);
}

void check_same_rows(const RowFile& first, const RowFile& file) {
  if (*first.spec == *file.spec) return;
  throw FileError(FileError::Kind::kDamaged, file.path,
                  "its rows are " + to_string(*file.spec) + ", but those of " + first.path + " are " +
                      to_string(*first.spec) + "; all files must have rows of one type");
}

}  // namespace torch_distinput
