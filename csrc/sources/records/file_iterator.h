// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/records/file_format.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Reads the files that `names` yields from begin to end. A position is that of `names` before the file, and
/// the byte in its uncompressed contents where the next record begins.
IteratorPtr file_iterator(IteratorPtr names, const FileReader& reader, const IterContext& context);

}  // namespace torch_distinput
