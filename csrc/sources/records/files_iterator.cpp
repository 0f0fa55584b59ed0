// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/files_iterator.h"

#include <utility>

#include <c10/util/Exception.h>

#include "core/state_reader.h"
#include "sources/records/file_names.h"

namespace torch_distinput {

FilesIterator::FilesIterator(IteratorPtr names, std::string op, const IterContext& context)
    : names_(std::move(names)), op_(std::move(op)), budget_(context, op_) {}

std::optional<Element> FilesIterator::next() {
  while (in_file_ || begin_file()) {
    try {
      std::optional<Element> row = read();
      if (!row) {
        in_file_ = false;
        continue;
      }
      budget_.pass();
      return row;
    } catch (...) {
      budget_.fail(rows_lost());
    }
  }
  budget_.end();
  return std::nullopt;
}

State FilesIterator::save() const {
  return State()
      .set("names", in_file_ ? before_ : names_->save())
      .set("offset", in_file_ ? State(position()) : State())
      .set("skip", budget_.save());
}

void FilesIterator::load(const State& state) {
  const StateReader saved(state, op_);
  const bool in_file = !saved.at("offset").is_null();
  const std::int64_t offset = in_file ? saved.count("offset") : 0;
  budget_.load(saved.at("skip"));
  names_->load(saved.at("names"));
  in_file_ = false;
  if (!in_file) return;
  before_ = names_->save();
  const std::optional<Element> name = names_->next();
  TORCH_CHECK_VALUE(name, op_,
                    ": the saved position is in a file that `files` no longer yields; "
                    "resume with the same files.");
  open(file_name_of(*name, op_), offset);
  in_file_ = true;
}

bool FilesIterator::begin_file() {
  while (true) {
    before_ = names_->save();
    const std::optional<Element> name = names_->next();
    if (!name) return false;
    try {
      open(file_name_of(*name, op_), 0);
      in_file_ = true;
      return true;
    } catch (...) {
      budget_.fail();
    }
  }
}

}  // namespace torch_distinput
