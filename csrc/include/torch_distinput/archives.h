// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "torch_distinput/files.h"

/// \file
/// Datasets of the members of archives.

namespace torch_distinput {

/// The groups of tar archives in WebDataset's layout as dicts. Consecutive members whose names are equal up
/// to the first dot of their last part are one element: `__key__` is that part of the name as text, and the
/// contents of each member, as bytes, stand under the rest of its name in lower case, sorted. All elements
/// must have the suffixes of the first. Members without a suffix and folders are left out. Plain archives
/// have random access. Reading throws as TextLineDataset, with InvalidArgumentError naming file, member and
/// byte for damage, for links and sparse files, for a member that occurs twice and for names that lead out of
/// the archive.
class TDI_API TarDataset : public Dataset {
 public:
  /// Throws c10::ValueError for options out of range.
  explicit TarDataset(FileNames files, FileOptions options = {});
};

/// The names that `pattern` stands for: `{000..012}` counts, with the width of a first number that begins
/// with 0, and `{a,b}` lists. Throws InvalidArgumentError for braces that are nested or do not come in pairs.
/// Safe from any thread.
TDI_API std::vector<std::string> expand_braces(const std::string& pattern);

}  // namespace torch_distinput
