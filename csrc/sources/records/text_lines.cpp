// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/records/file_reader.h"
#include "sources/sources.h"

namespace torch_distinput::sources {

NodePtr text_lines(NodePtr names, const FileOptions& options) {
  FileReader reader{.name = "TextLineDataset", .format = {.kind = RecordKind::kTextLines}, .is_text = true};
  apply_options(reader, options);
  return read_files(std::move(names), std::move(reader));
}

}  // namespace torch_distinput::sources
