// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/records/file_format.h"
#include "torch_distinput/files.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Fills in what `options` say. Throws c10::ValueError for a wrong one.
void apply_options(FileReader& reader, const FileOptions& options);

/// The records of the files that `names` yields, one file after the other. Throws c10::TypeError where
/// `names` yields something else than strings.
NodePtr read_files(NodePtr names, FileReader reader);

}  // namespace torch_distinput
