// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "torch_distinput/dataset.h"

namespace torch_distinput {

/// The items of an int64 tensor, in order.
inline std::vector<std::int64_t> items(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.contiguous();
  const auto* data = dense.const_data_ptr<std::int64_t>();
  return {data, data + dense.numel()};
}

/// The elements of one epoch, at most `most`.
inline std::vector<Element> collect(const Dataset& dataset, IterateOptions options = {.epoch = 0},
                                    std::size_t most = 1000) {
  DatasetIterator iterator = dataset.iterate(options);
  std::vector<Element> elements;
  while (elements.size() < most) {
    std::optional<Element> element = iterator.next();
    if (!element) break;
    elements.push_back(std::move(*element));
  }
  return elements;
}

/// The items of the only leaf of each element.
inline std::vector<std::vector<std::int64_t>> collect_items(const Dataset& dataset,
                                                            IterateOptions options = {.epoch = 0}) {
  std::vector<std::vector<std::int64_t>> result;
  for (const Element& element : collect(dataset, options)) result.push_back(items(element.tensor()));
  return result;
}

}  // namespace torch_distinput
