// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_distinput {

/// A row for each entry of the result, which holds indices of `counts`, in increasing order; each index is in
/// one row. Best fit decreasing: the longest piece first, each into the row in which it leaves the least
/// room. Rows are in the order of their first piece. REQUIRES: each count is in [1, `length`].
std::vector<std::vector<std::size_t>> best_fit_rows(const std::vector<std::int64_t>& counts,
                                                    std::int64_t length, std::int64_t most_documents);

}  // namespace torch_distinput
