// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "sources/columns/column_type.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// What elements are made of: which leaves of a block become which leaves of an element.
struct RowType {
  struct LeafSource {
    std::vector<std::size_t> stored;  ///< leaves of a block; several are put side by side
  };

  TableType table;
  ElementSpec spec;                 ///< of an element
  std::vector<LeafSource> sources;  ///< one for each leaf of `spec`
  RowLayout layout;                 ///< REQUIRES: `dense`
  bool dense = false;               ///< whether all leaves have a static dense layout
};

/// The elements of rows of `schema`. Throws as `table_type`, and c10::ValueError for stacks of columns that
/// are not there or no numbers.
std::shared_ptr<const RowType> row_type(const ArrowSchema& schema, const ColumnOptions& options,
                                        const std::string& op);

}  // namespace torch_distinput
