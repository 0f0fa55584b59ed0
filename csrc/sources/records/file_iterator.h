// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/records/file_format.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Returns an iterator over the records of the files that `names` yields, read in order in the caller's
/// thread. Its state is the state of `names` before the open file, and the byte of the uncompressed contents
/// at which the next record begins.
IteratorPtr file_iterator(IteratorPtr names, const FileReader& reader, const IterContext& context);

}  // namespace torch_distinput
