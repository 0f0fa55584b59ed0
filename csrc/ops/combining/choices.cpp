// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/combining/choices.h"

#include <algorithm>
#include <numeric>
#include <variant>
#include <vector>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

/// Choices that are read together.
constexpr std::int64_t kBlock = 4096;

std::size_t checked_index(std::int64_t index, std::int64_t number, std::size_t datasets) {
  TORCH_CHECK_VALUE(index >= 0 && index < static_cast<std::int64_t>(datasets), kChooseFromDatasetsName,
                    ": `choice` must yield indices in [0, ", datasets, "), but element ", number, " is ",
                    index, ".");
  return static_cast<std::size_t>(index);
}

bool holds_indices(const RowLayout* layout) {
  return layout != nullptr && layout->structure == Structure::leaf() &&
         layout->leaves.front().dtype == at::kLong && layout->leaves.front().shape.empty();
}

/// Calls `take(index of a dataset)` for choices [`begin`, `end`), one after the other, until it returns
/// false. Returns whether it never did.
template <class Take>
bool take_block(const Plan& choices, std::int64_t begin, std::int64_t end, std::size_t datasets,
                const Take& take) {
  const auto count = static_cast<std::size_t>(end - begin);
  std::vector<std::int64_t> positions(count);
  std::iota(positions.begin(), positions.end(), begin);
  std::vector<std::int64_t> indices;
  std::vector<Element> elements;
  if (holds_indices(choices.layout())) {
    indices.resize(count);
    const RowSink sink{reinterpret_cast<char*>(indices.data()), sizeof(std::int64_t)};
    choices.gather(positions, {}, {&sink, 1});
  } else {
    elements = choices.fetch(positions);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t number = begin + static_cast<std::int64_t>(i);
    if (!take(elements.empty() ? checked_index(indices[i], number, datasets)
                               : chosen_dataset(elements[i], number, datasets)))
      return false;
  }
  return true;
}

}  // namespace

std::size_t chosen_dataset(const Element& choice, std::int64_t number, std::size_t datasets) {
  const at::Tensor* scalar =
      choice.structure() == Structure::leaf() ? std::get_if<at::Tensor>(&choice.leaves().front()) : nullptr;
  TORCH_CHECK_TYPE(scalar != nullptr && scalar->dim() == 0 && scalar->scalar_type() == at::kLong,
                   kChooseFromDatasetsName, ": `choice` must yield int64 scalars, but element ", number,
                   " is ", to_string(spec_of(choice)), ".");
  return checked_index(scalar->item<std::int64_t>(), number, datasets);
}

std::shared_ptr<const ChosenOrder> read_choices(const Plan& choices, std::span<const std::int64_t> sizes) {
  auto order = std::make_shared<ChosenOrder>(sizes.size());
  const auto take = [&](std::size_t dataset) {
    const bool is_left = order->chosen(dataset) < sizes[dataset];
    if (is_left) order->push(dataset);
    return is_left;
  };
  for (std::int64_t begin = 0; begin < choices.size();) {
    const std::int64_t end = begin + std::min(kBlock, choices.size() - begin);
    if (!take_block(choices, begin, end, sizes.size(), take)) break;
    begin = end;
  }
  return order;
}

}  // namespace torch_distinput
