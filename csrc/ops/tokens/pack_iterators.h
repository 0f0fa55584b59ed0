// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "ops/tokens/packed_rows.h"
#include "torch_distinput/node.h"

namespace torch_distinput {

/// Documents one after the other, cut where a row is full. The state is that of the input before a document,
/// how many documents follow it, and the tokens used of the last of them.
IteratorPtr greedy_pack_iterator(IteratorPtr input, PackArguments packing, std::shared_ptr<BufferPool> pool);

/// Windows of documents, each packed for itself. The state is that of the input before the window, and the
/// rows handed out of it.
IteratorPtr best_fit_pack_iterator(IteratorPtr input, PackArguments packing,
                                   std::shared_ptr<BufferPool> pool);

}  // namespace torch_distinput
