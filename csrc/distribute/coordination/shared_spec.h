// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "torch_distinput/spec.h"

namespace torch_distinput {

/// `spec` as text for other processes, with the dims that probes saw. "" for null, and for what means nothing
/// elsewhere: the classes of named tuples and nested datasets are those of this process.
std::string encode_spec(const SpecPtr& spec);

/// REQUIRES: made by `encode_spec`. Null for "".
SpecPtr decode_spec(const std::string& text);

/// `own`, and what it lacks as the lowest rank has it that knows it: the whole spec, or the dims that a probe
/// saw where the declared ones are unknown. `of_ranks`: what each rank knows. Null where nobody knows.
SpecPtr complete_spec(const SpecPtr& own, const std::vector<SpecPtr>& of_ranks);

}  // namespace torch_distinput
