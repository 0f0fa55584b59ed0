// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/record_format.h"
#include "torch_distinput/files.h"

namespace torch_distinput {

/// What distinguishes the readers of the several formats.
struct FileReader {
  std::string name;                              ///< the public name, such as `TFRecordDataset`
  std::string arguments = {};                    ///< the arguments besides the files, for `describe`
  RecordFormat format;                           ///< how files are divided into records
  Compression compression = Compression::kNone;  ///< of all files
  std::optional<bool> index = {};                ///< as FileOptions::index: unset means where it is possible
  std::optional<std::uint64_t> max_record_bytes = {};  ///< as FileOptions::max_record_bytes
  bool is_text = false;                                ///< whether records are text; else bytes
};

}  // namespace torch_distinput
