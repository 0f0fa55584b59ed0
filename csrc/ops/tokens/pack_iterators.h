// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

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

/// A row for each entry of the result, which holds indices of `counts`, in increasing order; each index is in
/// one row. Best fit decreasing: the longest piece first, each into the row in which it leaves the least
/// room. Rows are in the order of their first piece. REQUIRES: each count is in [1, `length`].
std::vector<std::vector<std::size_t>> best_fit_rows(const std::vector<std::int64_t>& counts,
                                                    std::int64_t length, std::int64_t most_documents);

}  // namespace torch_distinput
