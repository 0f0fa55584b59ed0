// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/functional/interleave_iterators.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// Whose turn it is in an `interleave`.
class InterleaveCycle {
 public:
  explicit InterleaveCycle(InterleaveTurns turns) : turns_(turns) {}

  std::size_t slots() const { return static_cast<std::size_t>(turns_.cycle_length); }
  /// The slot whose turn it is.
  std::size_t slot() const { return slot_; }
  /// The slot handed out an element.
  void advance() {
    if (++block_ == turns_.block_length) next_slot();
  }
  void next_slot() { go_to((slot_ + 1) % slots()); }
  /// A new turn, of `slot`.
  void go_to(std::size_t slot) {
    slot_ = slot;
    block_ = 0;
  }

  /// Adds `slot` and `block` to a state.
  void save(State& state) const;
  void load(const State& state);

 private:
  InterleaveTurns turns_;
  std::size_t slot_ = 0;
  std::int64_t block_ = 0;  ///< elements handed out in this turn
};

/// A saved open dataset: the input's position before its element, the element's number, the position in it
/// (null: at its start).
struct SavedInner {
  State before;
  std::int64_t number;
  State position;

  State save() const;
  static SavedInner load(const State& state);
};

/// The field `slots` of the state of an `interleave` of so many; nullopt where a slot is empty.
std::vector<std::optional<SavedInner>> load_slots(const State& state, std::size_t slots);

}  // namespace torch_distinput
