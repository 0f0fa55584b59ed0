// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace torch_distinput {

/// The first host of a list as Slurm writes them: `node01` of `node[01-03,07],login`, `r1n3` of
/// `r[1-2]n[3,5]`. None if `list` is not one.
std::optional<std::string> first_host(std::string_view list);

}  // namespace torch_distinput
