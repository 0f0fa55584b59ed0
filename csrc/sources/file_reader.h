// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "files/record_format.h"
#include "torch_distinput/files.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// What the readers of the several formats differ in.
struct FileReader {
  std::string name;            ///< as the user calls it: `TFRecordDataset`
  std::string arguments = {};  ///< those beside the files, for `describe`
  RecordFormat format;
  Compression compression = Compression::kNone;
  std::optional<bool> index = {};
  bool is_text = false;  ///< yields text, not bytes
};

/// Fills in what `options` say. Throws c10::ValueError for a wrong one.
void apply_options(FileReader& reader, const FileOptions& options);

/// The records of the files that `names` yields, one file after the other. Throws c10::TypeError where
/// `names` yields something else than strings.
NodePtr read_files(NodePtr names, FileReader reader);

}  // namespace torch_distinput
