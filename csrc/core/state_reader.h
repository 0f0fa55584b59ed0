// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "torch_distinput/state.h"

namespace torch_distinput {

/// The largest count in a saved position. No iterator counts further, and sums and doubles of counts up to
/// here fit in 64 bits.
inline constexpr std::int64_t kMaxCounted = std::int64_t{1} << 48;

/// The largest epoch in a saved position: users choose epochs freely, and those that follow must fit in 64
/// bits.
inline constexpr std::int64_t kMaxEpochs = std::int64_t{1} << 62;

/// The fields of a saved position, each checked when it is read, because a state may be damaged. A missing or
/// wrong field is a c10::ValueError that names the reader, the field, the rule and the value. Returned
/// references live as long as the state.
class StateReader {
 public:
  /// `reader` is the user's name for the object that reads, such as `take`. Both arguments must outlive this
  /// object. Throws c10::ValueError where `state` is not a map.
  StateReader(const State& state, std::string_view reader);

  /// A field of any kind.
  const State& at(std::string_view field) const;
  /// Whether there is such a field.
  bool has(std::string_view field) const { return state_.has(field); }

  // A field of one kind.

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

/// `value` as text for messages, cut after 80 characters.
std::string brief(const State& value);

/// Data without end set no limit to a position. Throws c10::ValueError where `rows` cannot be the rows of the
/// first `elements` elements, so that the caller does not count them all to find out.
void check_rows_of_endless(std::string_view reader, std::int64_t elements, std::int64_t rows);

/// The largest number of elements that an iterator over a dataset of this cardinality can have counted.
constexpr std::int64_t most_counted(std::int64_t cardinality) {
  return cardinality < 0 ? kMaxCounted : cardinality;
}

}  // namespace torch_distinput
