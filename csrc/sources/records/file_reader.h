// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/records/file_format.h"
#include "torch_distinput/files.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Sets the compression and the index of `reader` from `options`. Throws c10::ValueError for an unknown
/// compression type, and for `index` with compressed files.
void apply_options(FileReader& reader, const FileOptions& options);

/// Returns the node of the records of the files that `names` yields, one file after the other. Throws
/// c10::TypeError if `names` yields anything but single strings.
NodePtr read_files(NodePtr names, FileReader reader);

}  // namespace torch_distinput
