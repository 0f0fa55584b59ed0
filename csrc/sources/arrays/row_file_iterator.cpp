// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "execution/execution_context.h"
#include "execution/skip_budget.h"
#include "sources/arrays/row_files_node.h"
#include "sources/records/file_errors.h"
#include "sources/records/file_names.h"
#include "torch_distinput/interrupt.h"

namespace torch_distinput {
namespace {

class RowFileIterator final : public Iterator {
 public:
  RowFileIterator(IteratorPtr names, std::shared_ptr<const RowFormat> format, const IterContext& context)
      : names_(std::move(names)),
        format_(std::move(format)),
        op_(format_->name()),
        pool_(context.execution->pool),
        budget_(context, op_) {}

  std::optional<Element> next() override {
    while (rows_ || begin_file()) {
      if (row_ == rows_->size()) {
        rows_.reset();
        continue;
      }
      std::int64_t position = row_++;
      try {
        std::vector<Element> row = rows_->fetch({&position, 1});
        budget_.pass();
        return std::move(row.front());
      } catch (...) {
        budget_.fail();
      }
    }
    budget_.end();
    return std::nullopt;
  }

  State save() const override {
    State state;
    state.set("names", rows_ ? before_ : names_->save());
    state.set("row", rows_ ? State(row_) : State());
    return state.set("skip", budget_.save());
  }

  void load(const State& state) override {
    const StateReader saved(state, op_);
    const bool in_file = !saved.at("row").is_null();
    const std::int64_t row = in_file ? saved.count("row") : 0;
    budget_.load(saved.at("skip"));
    names_->load(saved.at("names"));
    rows_.reset();
    if (!in_file) return;
    before_ = names_->save();
    const std::optional<Element> name = names_->next();
    TORCH_CHECK_VALUE(name, op_,
                      ": the saved position is in a file that `files` no longer yields; "
                      "resume with the same files.");
    open(*name);
    TORCH_CHECK_VALUE(row <= rows_->size(), op_, ": the saved position is after row ", row,
                      " of a file, but the file has ", rows_->size(), " rows.");
    row_ = row;
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
        open(*name);
        return true;
      } catch (...) {
        budget_.fail();
      }
    }
  }

  void open(const Element& name) {
    const std::string path = file_name_of(name, op_);
    with_file_errors(op_, [&] {
      RowFilePtr file = format_->open(path, interrupt_check());
      if (!first_) first_ = file;
      check_same_rows(*first_, *file);
      rows_ = format_->plan({std::move(file)}, pool_);
    });
    row_ = 0;
  }

  IteratorPtr names_;
  std::shared_ptr<const RowFormat> format_;
  std::string op_;
  std::shared_ptr<BufferPool> pool_;
  SkipBudget budget_;
  State before_;      ///< the position of `names_` before the open file
  RowFilePtr first_;  ///< the first file that was opened: the others have rows of its type
  PlanPtr rows_;      ///< of the open file; null between files
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
