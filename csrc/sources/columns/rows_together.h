// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include "sources/columns/import_block.h"

namespace torch_distinput {

/// `block` with the dense leaves of each row next to each other: rows in random order then miss the
/// processor's cache once each, and not once for each leaf. Copies them; the leaves become views of one
/// memory. Returns `block` as it is where that is no gain: its rows have few dense leaves, or many bytes.
RowBlock with_rows_together(RowBlock block);

}  // namespace torch_distinput
