// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "ops/functional/interleave_iterators.h"
#include "torch_distinput/state.h"

namespace torch_distinput {

/// Which slot has its turn in an `interleave`. One thread at a time.
class InterleaveCycle {
 public:
  /// The first turn is that of slot 0.
  explicit InterleaveCycle(InterleaveTurns turns) : turns_(turns) {}

  /// The number of slots.
  std::size_t slots() const { return static_cast<std::size_t>(turns_.cycle_length); }
  /// The slot that has its turn.
  std::size_t slot() const { return slot_; }
  /// Counts an element of the current slot, and ends its turn after `block_length` elements.
  void advance() {
    if (++block_ == turns_.block_length) next_slot();
  }
  /// Ends the turn of the current slot.
  void next_slot() { go_to((slot_ + 1) % slots()); }
  /// Starts a turn of `slot`.
  void go_to(std::size_t slot) {
    slot_ = slot;
    block_ = 0;
  }

  /// Adds the fields `slot` and `block` to `state`.
  void save(State& state) const;
  /// Restores these fields. Throws c10::ValueError if they are out of range.
  void load(const State& state);

 private:
  InterleaveTurns turns_;
  std::size_t slot_ = 0;
  std::int64_t block_ = 0;  ///< elements handed out in this turn
};

/// The saved position in an open dataset.
struct SavedInner {
  State before;         ///< the input's state before the element of the dataset
  std::int64_t number;  ///< the number of that element
  State position;       ///< the state of the dataset; null at its start

  /// Converts to a state and back. `load` throws c10::ValueError for a field that is missing or of another
  /// kind.
  State save() const;
  static SavedInner load(const State& state);
};

/// Returns the field `slots` of the state of an `interleave` with that many slots; nullopt for an empty slot.
/// Throws c10::ValueError if the list has another length or its element numbers cannot be right.
std::vector<std::optional<SavedInner>> load_slots(const State& state, std::size_t slots);

}  // namespace torch_distinput
