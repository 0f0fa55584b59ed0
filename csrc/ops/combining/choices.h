// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "runtime/chosen_order.h"
#include "torch_distinput/element.h"
#include "torch_distinput/plan.h"

namespace torch_distinput {

/// As the user calls the op whose choices these are.
inline constexpr const char* kChooseFromDatasetsName = "choose_from_datasets";

/// The dataset, of `datasets`, that element `number` of the choice names. Throws c10::TypeError where it is
/// no int64 scalar, and c10::ValueError where there is no such dataset.
std::size_t chosen_dataset(const Element& choice, std::int64_t number, std::size_t datasets);

/// Reads the elements of `choices` up to the first one that names a dataset which has ended; there are
/// `sizes[i]` elements of dataset i. Throws as `chosen_dataset`, and what reading throws: of a few thousand
/// choices after the end, too.
std::shared_ptr<const ChosenOrder> read_choices(const Plan& choices, std::span<const std::int64_t> sizes);

}  // namespace torch_distinput
