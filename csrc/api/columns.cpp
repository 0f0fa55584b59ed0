// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/columns.h"

#include <utility>

#include "sources/columns/columns.h"

namespace torch_distinput {

BlockReader::~BlockReader() = default;

Dataset from_arrow(ArrowArrayStream* stream, const ColumnOptions& options) {
  return Dataset(sources::arrow_table(stream, options));
}

Dataset from_blocks(const FileNames& files, std::shared_ptr<const BlockReader> reader,
                    const ColumnOptions& options, bool index) {
  return Dataset(sources::column_files(files.node(), std::move(reader), options, index));
}

}  // namespace torch_distinput
