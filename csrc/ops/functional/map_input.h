// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The elements that a function gets at once may take as much, so that elements of any size fit into memory.
inline constexpr std::int64_t kMostBytesOfCall = std::int64_t{8} << 20;

/// The numbered elements of the input of a `map` on the sequential path. All iterators of `map` have this
/// state, so that any of them can resume from the state of another. One thread at a time.
class MapInput {
 public:
  /// An element of the input.
  struct Item {
    std::int64_t number;  ///< the number of the element in the dataset
    Element element;
  };

  /// Numbers the elements of `input` from 0 on.
  explicit MapInput(IteratorPtr input);

  /// Returns the next element whose result has not been delivered; nullopt at the end.
  std::optional<Item> next();

  /// The state before the next element: `input`, `number` (of the next element) and `delivered` (the numbers
  /// of later elements whose results were delivered out of order).
  State save() const;
  /// Throws c10::ValueError for a state that `save` cannot have returned.
  void load(const State& state);

 private:
  IteratorPtr input_;
  std::int64_t number_ = 0;
  std::set<std::int64_t> delivered_;
};

}  // namespace torch_distinput
