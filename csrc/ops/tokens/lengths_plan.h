// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "ops/tokens/stored_lengths.h"
#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

inline constexpr const char* kWithLengthsName = "with_lengths";

/// The rows along dim 0 of leaf `leaf` of `element`, number `number`. Throws c10::TypeError for a leaf that
/// is not dense, and c10::ValueError for a scalar and for 2^32 rows or more.
std::int64_t length_of(const Element& element, std::size_t leaf, std::int64_t number);

/// The elements of `input` whose leaf `leaf` has `lengths`, which were read from `place`. Fetching an element
/// of another length throws InvalidArgumentError.
PlanPtr lengths_plan(PlanPtr input, std::size_t leaf, std::shared_ptr<const Lengths> lengths,
                     std::string place);

}  // namespace torch_distinput
