// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "torch_distinput/node.h"

/// \file
/// What ops share that need random access to all elements of their input.

namespace torch_distinput {

/// The plan of an input whose failing rows are to be skipped, if it yields the elements of that plan in
/// order, except for those that fail: no op in between depends on the number of an element. Else null.
PlanPtr plan_with_failures(const Node& input, const IterContext& input_context);

/// The elements of `plan`, for options that skip elements that fail: drops those. `op` makes the plan, and
/// `below` is the op whose elements fail, both for messages.
IteratorPtr skipping_iterator(PlanPtr plan, const IterContext& context, std::string_view op,
                              std::string below);

/// Throws c10::ValueError, which names `op` and the op below it that has no random access, and says `advice`.
[[noreturn]] void refuse_stream(std::string_view op, const Node& input, const IterContext& input_context,
                                std::string_view advice);

}  // namespace torch_distinput
