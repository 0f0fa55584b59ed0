// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The name that an element of a dataset of file names is. Throws c10::TypeError naming `op` where it is no
/// single string.
std::string file_name_of(const Element& element, const std::string& op);

/// All names that `names` yields in an epoch, where their number is known and finite; else nullopt.
std::optional<std::vector<std::string>> list_names(const Node& names, const IterContext& context,
                                                   const std::string& op);

/// Whether `names` yields the same files in each epoch, in whatever order.
bool same_files_each_epoch(const Node& names);

}  // namespace torch_distinput
