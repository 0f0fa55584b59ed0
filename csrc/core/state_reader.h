// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "torch_distinput/state.h"

namespace torch_distinput {

/// No iterator has counted further, and sums and doubles of counts up to here fit in 64 bits.
inline constexpr std::int64_t kMaxCounted = std::int64_t{1} << 48;

/// A pinned epoch may be any number; those after it fit in 64 bits too.
inline constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 62;

/// The fields of a saved position, each checked when it is read: a state may be damaged. What is wrong is a
/// c10::ValueError that names the reader, the field, the rule and the value.
class StateReader {
 public:
  /// `reader` is what users call the one who reads: `take`. Both arguments must outlive this object. Throws
  /// where `state` is no map.
  StateReader(const State& state, std::string_view reader);

  /// A field of any kind.
  const State& at(std::string_view field) const;
  bool has(std::string_view field) const { return state_.has(field); }

  std::int64_t integer(std::string_view field) const;
  /// An integer in [0, `most`].
  std::int64_t count(std::string_view field, std::int64_t most = kMaxCounted) const;
  /// An integer in [0, `size`).
  std::size_t index(std::string_view field, std::size_t size) const;
  bool flag(std::string_view field) const;
  const std::string& text(std::string_view field) const;
  const State::List& list(std::string_view field) const;
  /// A list of `size` entries.
  const State::List& list(std::string_view field, std::size_t size) const;

 private:
  template <class T>
  const T& get(std::string_view field, const char* kind) const;

  const State& state_;
  std::string_view reader_;
};

/// `value` as a message shows it: cut where it is long.
std::string brief(const State& value);

/// Endless data bound no position: where `rows` cannot be those of the first `elements`, throws
/// c10::ValueError instead of letting the caller count all of them to find out.
void check_rows_of_endless(std::string_view reader, std::int64_t elements, std::int64_t rows);

/// The most elements that an iterator over `cardinality` elements can have counted.
constexpr std::int64_t most_counted(std::int64_t cardinality) {
  return cardinality < 0 ? kMaxCounted : cardinality;
}

}  // namespace torch_distinput
