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
/// The sources: one factory each, with its class in a .cpp file of that name (readers of files in records/).
/// The factories check their arguments and are safe from any thread; they read no rows. All sources have
/// random access and known cardinality unless their doc says otherwise.

namespace torch_distinput::sources {

/// The int64 scalars start, start + step, ... before `stop`, as Python's range. Throws c10::ValueError if
/// `step` is 0 or the number of values needs more than 63 bits.
NodePtr range(std::int64_t start, std::int64_t stop, std::int64_t step);
/// One element: `value`. It is copied at each read, so writes by users do not reach the source. Throws
/// c10::TypeError for a tensor that is not strided and in host memory.
NodePtr tensors(Element value);
/// One element for each index along dim 0 of the leaves of `value`. Reads the user's memory, and elements are
/// copies of it. Throws c10::ValueError for a scalar leaf and if sizes in dim 0 differ, and c10::TypeError as
/// `tensors`.
NodePtr tensor_slices(Element value);
/// `tensor_slices` for leaves of any kind. REQUIRES: each leaf has `rows` rows.
NodePtr element_slices(Element value, std::int64_t rows);
/// The elements that `source` generates, checked against `spec`. Without a spec, the first element is read
/// when the spec is asked for, and each element must have the structure, kinds and dtypes of the first.
/// Sequential only, of unknown cardinality; a restore runs the generator again from its start.
NodePtr generator(std::shared_ptr<const GeneratorSource> source, std::optional<ElementSpec> spec);
/// The names of files, as text; as bytes if one of them is not UTF-8. Throws InvalidArgumentError for a name
/// that no file can have.
NodePtr file_names(std::vector<std::string> names);
/// The names of the files that match one of `patterns` (`*`, `?`, `[...]`; in URLs also braces), sorted, each
/// once. Throws NotFoundError naming a pattern that nothing matches, and SystemError for a folder that must
/// not be read.
NodePtr list_files(const std::vector<std::string>& patterns);
/// The records of the files that `names` yields, in order, each as one string: lines as text, the others as
/// bytes. They have random access where all files can be indexed (not compressed ones); else they are
/// sequential and of unknown cardinality. Throw c10::ValueError for bad options and c10::TypeError if `names`
/// yields no strings.
NodePtr text_lines(NodePtr names, const FileOptions& options);
NodePtr tf_records(NodePtr names, const FileOptions& options);
NodePtr fixed_records(NodePtr names, std::int64_t record_bytes, std::int64_t header_bytes,
                      std::int64_t footer_bytes, const FileOptions& options);
/// Tuples of a file's bytes and its number. Sequential where the options say to skip rows that fail. Throws
/// c10::ValueError for lists of different length.
NodePtr image_files(std::vector<std::string> paths, std::vector<std::int64_t> numbers);
/// The groups of members of the tar archives that `names` yields, as dicts. Otherwise as `tf_records`.
NodePtr tar_members(NodePtr names, const FileOptions& options);
/// The rows of a user's random-access source. Throws c10::ValueError if its size is negative. Sequential
/// where the options say to skip rows that fail.
NodePtr rows(std::shared_ptr<const RowSource> source);

}  // namespace torch_distinput::sources
