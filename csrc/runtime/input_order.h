// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace torch_distinput {

/// Which of several inputs gives the element at each position. Methods are safe from any thread.
class InputOrder {
 public:
  /// Element `number` of input `input`.
  struct Place {
    std::size_t input;
    std::int64_t number;
    bool operator==(const Place&) const = default;
  };

  virtual ~InputOrder() = default;

  /// What is at `position`.
  virtual Place locate(std::int64_t position) const = 0;
  /// `input` gives its elements from `first` on to the positions at `offsets`, which increase.
  using Take =
      std::function<void(std::size_t input, std::int64_t first, std::span<const std::int64_t> offsets)>;
  /// Locates the positions [`position`, `position` + `count`) together: calls `take` with offsets from
  /// `position`, usually once for each input.
  virtual void locate_run(std::int64_t position, std::int64_t count, const Take& take) const = 0;
  /// How many elements of each input lie before `position`.
  virtual std::vector<std::int64_t> counts(std::int64_t position) const = 0;
};

}  // namespace torch_distinput
