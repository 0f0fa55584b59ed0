// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Returns the file name in an element of a dataset of file names. Throws c10::TypeError naming `op` unless
/// the element is a single string.
std::string file_name_of(const Element& element, const std::string& op);

/// Throws c10::TypeError naming `op` unless elements of `names` are single strings, as far as their type is
/// known.
void check_file_names(const Node& names, const std::string& op);

/// The context in which a pipeline of file names is asked questions that no iterator asks. Rows that fail are
/// not skipped in it.
IterContext context_to_ask(const Node& names);

/// Returns all names that `names` yields in the epoch of `context`; nullopt if their number is unknown or
/// infinite. Throws as `file_name_of`, and what reading `names` throws.
std::optional<std::vector<std::string>> list_names(const Node& names, const IterContext& context,
                                                   const std::string& op);

/// Returns whether `names` surely yields the same files in each epoch, in any order.
bool same_files_each_epoch(const Node& names);

}  // namespace torch_distinput
