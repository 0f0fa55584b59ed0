// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "sources/arrays/row_files.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// The rows of the files that `names` yields, in order. Random access where the number of files is known;
/// sequential where rows that fail are skipped. Throws c10::TypeError if `names` yields no strings.
NodePtr read_row_files(NodePtr names, std::shared_ptr<const RowFormat> format);

/// Returns an iterator over the rows of the files that `names` yields, which skips what fails if the options
/// allow it. The state is that of `names` before the open file, and the row in that file.
IteratorPtr row_file_iterator(IteratorPtr names, std::shared_ptr<const RowFormat> format,
                              const IterContext& context);

/// Throws FileError if rows of `file` differ from those of `first` in their type.
void check_same_rows(const RowFile& first, const RowFile& file);

}  // namespace torch_distinput
