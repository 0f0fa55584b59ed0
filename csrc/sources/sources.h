// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/files.h"
#include "torch_distinput/function.h"
#include "torch_distinput/node.h"

/// \file
/// The sources: one factory each, the class in the .cpp file of the same name.

namespace torch_distinput::sources {

/// int64 scalars start, start + step, ... before stop.
NodePtr range(std::int64_t start, std::int64_t stop, std::int64_t step);
/// One element: `value`.
NodePtr tensors(Element value);
/// One element for each index along dim 0 of `value`'s leaves.
NodePtr tensor_slices(Element value);
/// The same for leaves of any kind that all have `rows` rows.
NodePtr element_slices(Element value, std::int64_t rows);
/// What `source` generates, checked against `spec`; null: probed on the first.
NodePtr generator(std::shared_ptr<const GeneratorSource> source, std::optional<ElementSpec> spec);
/// The names of files, as text. Throws InvalidArgumentError for one that no file can have.
NodePtr file_names(std::vector<std::string> names);
/// The names of the files that match one of `patterns` (`*`, `?`, `[...]`), sorted, each once. Throws
/// NotFoundError naming a pattern that nothing matches, and SystemError for a folder that cannot be read.
NodePtr list_files(const std::vector<std::string>& patterns);
/// The records of the files that `names` yields.
NodePtr text_lines(NodePtr names, const FileOptions& options);
NodePtr tf_records(NodePtr names, const FileOptions& options);
NodePtr fixed_records(NodePtr names, std::int64_t record_bytes, std::int64_t header_bytes,
                      std::int64_t footer_bytes, const FileOptions& options);
/// The rows of a user's random-access source.
NodePtr rows(std::shared_ptr<const RowSource> source);

}  // namespace torch_distinput::sources
