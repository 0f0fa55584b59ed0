// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace torch_distinput {

/// Draws rows with probabilities in proportion to weights: Walker's alias table. A draw is a function of its
/// key and number alone and costs O(1); the table takes 16 bytes a row. Probabilities are those of the
/// weights as float64, to 64 bits a row. The same on every machine. Immutable; safe from any thread.
class AliasTable {
 public:
  /// In O(n), and without memory besides the table. REQUIRES: finite weights of at least 0, one above 0.
  explicit AliasTable(std::span<const double> weights);

  /// The row of draw `number` under `key`. A row of weight 0 is never drawn.
  std::int64_t draw(std::uint64_t key, std::uint64_t number) const noexcept;

 private:
  /// A draw that falls on slot i is row i if its second random number is below `threshold`, else row `alias`.
  struct Slot {
    std::uint64_t threshold;
    std::int64_t alias;
  };

  std::vector<Slot> slots_;
};

}  // namespace torch_distinput
