// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "torch_distinput/columns.h"
#include "torch_distinput/node.h"

/// \file
/// The sources of columns; their contracts are those of torch_distinput/columns.h.

namespace torch_distinput::sources {

NodePtr arrow_table(ArrowArrayStream* stream, const ColumnOptions& options);
NodePtr column_files(NodePtr names, std::shared_ptr<const BlockReader> reader, const ColumnOptions& options,
                     bool index);

}  // namespace torch_distinput::sources
