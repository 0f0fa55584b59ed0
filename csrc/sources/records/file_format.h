// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "io/record_format.h"
#include "torch_distinput/files.h"

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

}  // namespace torch_distinput
