// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/state_reader.h"

#include <string>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>

namespace torch_distinput {
namespace {

constexpr std::size_t kMaxShown = 80;

std::string cut(std::string text) {
  return text.size() > kMaxShown ? text.substr(0, kMaxShown) + "..." : text;
}

/// `a`, `b`: the fields that are there.
std::string names_of(const State::Map& fields) {
  std::string names;
  for (const auto& entry : fields) names += (names.empty() ? "`" : ", `") + entry.first + "`";
  return names.empty() ? "none" : cut(std::move(names));
}

}  // namespace

StateReader::StateReader(const State& state, std::string_view reader) : state_(state), reader_(reader) {
  TORCH_CHECK_VALUE(std::holds_alternative<State::Map>(state.value()), reader,
                    ": the saved position must be a map of named fields, but is ", brief(state), ".");
}

const State& StateReader::at(std::string_view field) const {
  TORCH_CHECK_VALUE(state_.has(field), reader_, ": the saved position must have a field `", field,
                    "`, but has ", names_of(state_.as_map()), ".");
  return state_.at(field);
}

template <class T>
const T& StateReader::get(std::string_view field, const char* kind) const {
  const State& value = at(field);
  const auto* held = std::get_if<T>(&value.value());
  TORCH_CHECK_VALUE(held != nullptr, reader_, ": the saved `", field, "` must be ", kind, ", but is ",
                    brief(value), ".");
  return *held;
}

std::int64_t StateReader::integer(std::string_view field) const {
  return get<std::int64_t>(field, "an integer");
}

std::int64_t StateReader::count(std::string_view field, std::int64_t most) const {
  const std::int64_t value = integer(field);
  TORCH_CHECK_VALUE(value >= 0 && value <= most, reader_, ": the saved `", field, "` must be in [0, ", most,
                    "], but is ", value, ".");
  return value;
}

std::size_t StateReader::index(std::string_view field, std::size_t size) const {
  const std::int64_t value = integer(field);
  TORCH_CHECK_VALUE(value >= 0 && std::cmp_less(value, size), reader_, ": the saved `", field,
                    "` must be in [0, ", size, "), but is ", value, ".");
  return static_cast<std::size_t>(value);
}

bool StateReader::flag(std::string_view field) const { return get<bool>(field, "a bool"); }

const std::string& StateReader::text(std::string_view field) const {
  return get<std::string>(field, "a string");
}

const State::List& StateReader::list(std::string_view field) const {
  return get<State::List>(field, "a list");
}

const State::List& StateReader::list(std::string_view field, std::size_t size) const {
  const State::List& entries = list(field);
  TORCH_CHECK_VALUE(entries.size() == size, reader_, ": the saved `", field, "` must have ", size,
                    " entries, but has ", entries.size(), ".");
  return entries;
}

void check_rows_of_endless(std::string_view reader, std::int64_t elements, std::int64_t rows) {
  // Bounds on the elements without rows, and on the rows of one element, that a position may imply.
  constexpr std::int64_t kMaxEmpty = std::int64_t{1} << 20;
  constexpr std::int64_t kMaxRows = std::int64_t{1} << 31;
  TORCH_CHECK_VALUE(elements - rows <= kMaxEmpty && rows / kMaxRows <= elements, reader,
                    ": the saved position is damaged: ", elements, " elements cannot have ", rows, " rows.");
}

std::string brief(const State& value) { return cut(value.str()); }

}  // namespace torch_distinput
