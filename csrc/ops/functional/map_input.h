// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// Elements on their way into a sequential `map`. All its iterators save positions
/// of this kind, so that one of them can go on where another one stopped.
class MapInput {
 public:
  struct Item {
    std::int64_t number;  ///< of the element in the dataset
    Element element;
  };

  explicit MapInput(IteratorPtr input);

  /// The next element that has not been delivered; nullopt at the end.
  std::optional<Item> next();

  /// The position before what `next` gives next: `input`, `number` (of the next
  /// element) and `delivered` (numbers of later elements that are not to be given).
  State save() const;
  void load(const State& state);

 private:
  IteratorPtr input_;
  std::int64_t number_ = 0;
  std::set<std::int64_t> delivered_;
};

}  // namespace torch_distinput
