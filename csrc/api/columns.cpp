// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/columns.h"

#include <utility>

#include <c10/util/Exception.h>

#include "sources/columns/columns.h"

namespace torch_distinput {

BlockCursor::~BlockCursor() = default;
BlockReader::~BlockReader() = default;

bool BlockReader::lacks_index(const std::vector<std::string>&) const { return false; }

std::vector<std::int64_t> BlockReader::will_read(const std::string&, const std::vector<std::int64_t>&,
                                                 std::int64_t) const {
  return {};
}

void BlockReader::read_rows(const std::string&, std::int64_t, std::int64_t, std::int64_t,
                            ArrowArrayStream*) const {
  TORCH_CHECK_NOT_IMPLEMENTED(false, name(), ": this reader does not read single rows of a block.");
}

std::unique_ptr<BlockCursor> BlockReader::open(const std::string&) const { return nullptr; }

Dataset from_arrow(ArrowArrayStream* stream, const ColumnOptions& options) {
  return Dataset(sources::arrow_table(stream, options));
}

Dataset from_blocks(const FileNames& files, std::shared_ptr<const BlockReader> reader,
                    const ColumnOptions& options, bool index) {
  return Dataset(sources::column_files(files.node(), std::move(reader), options, index));
}

}  // namespace torch_distinput
