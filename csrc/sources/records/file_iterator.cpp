// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_iterator.h"

#include <utility>

#include "io/record_reader.h"
#include "sources/records/byte_elements.h"
#include "sources/records/file_errors.h"
#include "sources/records/files_iterator.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Looks for an interrupt of the calling thread, which is the one that reads.
void look_for_interrupt() {
  if (const auto& check = interrupt_check()) check();
}

class RecordsIterator final : public FilesIterator {
 public:
  RecordsIterator(IteratorPtr names, const FileReader& reader, const IterContext& context)
      : FilesIterator(std::move(names), reader.name, context), reader_(reader) {}

 private:
  void open(const std::string& file, std::int64_t position) override {
    with_file_errors(op(), [&] {
      records_.emplace(std::make_shared<const File>(file), reader_.format, reader_.compression,
                       static_cast<std::uint64_t>(position), look_for_interrupt, reader_.max_record_bytes);
    });
  }
  std::optional<Element> read() override {
    const auto record = with_file_errors(op(), [&] { return records_->next(); });
    if (!record) return std::nullopt;
    return string_element({record->data(), record->size()}, reader_.is_text);
  }
  std::int64_t position() const override { return static_cast<std::int64_t>(records_->offset()); }

  FileReader reader_;
  std::optional<RecordReader> records_;  ///< of the file opened last
};

}  // namespace

IteratorPtr file_iterator(IteratorPtr names, const FileReader& reader, const IterContext& context) {
  return std::make_unique<RecordsIterator>(std::move(names), reader, context);
}

}  // namespace torch_distinput
