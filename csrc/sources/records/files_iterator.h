// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "execution/skip_budget.h"
#include "torch_distinput/node.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// Base of the iterators that read one file after the other, in the caller's thread, and skip files and rows
/// that fail where the options allow it. The state is that of the names before the open file, and a position
/// in that file.
class FilesIterator : public Iterator {
 public:
  /// `names` yields the files' names. `op`: the dataset's name, in messages.
  FilesIterator(IteratorPtr names, std::string op, const IterContext& context);

  std::optional<Element> next() final;
  State save() const final;
  void load(const State& state) final;

 protected:
  const std::string& op() const { return op_; }

 private:
  /// Opens `file` at `position`; 0 is its begin. Throws where it cannot be opened or has no such position.
  virtual void open(const std::string& file, std::int64_t position) = 0;
  /// The next row of the open file, nullopt at its end. What cannot be read is passed over when this throws.
  virtual std::optional<Element> read() = 0;
  /// The rows that are passed over after `read` has thrown.
  virtual std::int64_t rows_lost() const { return 1; }
  /// The position in the open file after the row last read.
  virtual std::int64_t position() const = 0;

  /// Opens the next file that can be opened. Returns false after the last one.
  bool begin_file();

  IteratorPtr names_;
  std::string op_;
  SkipBudget budget_;
  State before_;          ///< the state of `names_` before the open file
  bool in_file_ = false;  ///< whether a file is open
};

}  // namespace torch_distinput
