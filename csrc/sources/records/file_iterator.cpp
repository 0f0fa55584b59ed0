// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_iterator.h"

#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/skip_budget.h"
#include "io/record_reader.h"
#include "sources/records/byte_elements.h"
#include "sources/records/file_errors.h"
#include "sources/records/file_names.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

/// Looks for an interrupt of the calling thread, which is the one that reads.
void look_for_interrupt() {
  if (const auto& check = interrupt_check()) check();
}

class FileIterator final : public Iterator {
 public:
  FileIterator(IteratorPtr names, const FileReader& reader, const IterContext& context)
      : names_(std::move(names)), reader_(reader), budget_(context, reader.name) {}

  std::optional<Element> next() override {
    while (records_ || begin_file()) {
      try {
        std::optional<Element> element = next_record();
        if (!element) {
          records_.reset();
          continue;
        }
        budget_.pass();
        return element;
      } catch (...) {
        budget_.fail();
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override {
    State state;
    state.set("names", records_ ? before_ : names_->save());
    state.set("offset", records_ ? State(static_cast<std::int64_t>(records_->offset())) : State());
    state.set("skip", budget_.save());
    return state;
  }

  void load(const State& state) override {
    const StateReader saved(state, reader_.name);
    const bool in_file = !saved.at("offset").is_null();
    const std::int64_t offset = in_file ? saved.count("offset") : 0;
    budget_.load(saved.at("skip"));
    names_->load(saved.at("names"));
    records_.reset();
    if (!in_file) return;
    before_ = names_->save();
    const std::optional<Element> name = names_->next();
    TORCH_CHECK_VALUE(name, reader_.name,
                      ": the saved position is in a file that `files` no longer yields; "
                      "resume with the same files.");
    open(*name, static_cast<std::uint64_t>(offset));
  }

 private:
  /// Opens the next file, skipping those that cannot be opened if the options allow it. Returns false after
  /// the last one.
  bool begin_file() {
    while (true) {
      before_ = names_->save();
      const std::optional<Element> name = names_->next();
      if (!name) return false;
      try {
        open(*name, 0);
        return true;
      } catch (...) {
        budget_.fail();
      }
    }
  }

  void open(const Element& name, std::uint64_t offset) {
    const std::string path = file_name_of(name, reader_.name);
    with_file_errors(reader_.name, [&] {
      auto file = std::make_shared<const File>(path);
      records_.emplace(std::move(file), reader_.format, reader_.compression, offset, look_for_interrupt);
    });
  }

  std::optional<Element> next_record() {
    const auto record = with_file_errors(reader_.name, [&] { return records_->next(); });
    if (!record) return std::nullopt;
    return string_element({record->data(), record->size()}, reader_.is_text);
  }

  IteratorPtr names_;
  FileReader reader_;
  SkipBudget budget_;
  State before_;  ///< the position of `names_` before the open file
  std::optional<RecordReader> records_;
};

}  // namespace

IteratorPtr file_iterator(IteratorPtr names, const FileReader& reader, const IterContext& context) {
  return std::make_unique<FileIterator>(std::move(names), reader, context);
}

}  // namespace torch_distinput
