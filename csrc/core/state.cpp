// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/state.h"

#include <c10/util/Exception.h>

#include "core/state_reader.h"

namespace torch_distinput {
namespace {

constexpr const char* kKindNames[] = {"nothing",  "a bool", "an integer", "a float",
                                      "a string", "a list", "a map"};

template <class T>
const T& get(const State::Value& value, const char* wanted) {
  const auto* held = std::get_if<T>(&value);
  TORCH_CHECK_VALUE(held != nullptr, "state: expected ", wanted, ", found ", kKindNames[value.index()], ".");
  return *held;
}

}  // namespace

bool State::has(std::string_view name) const {
  const auto* map = std::get_if<Map>(&value_);
  return map != nullptr && map->find(name) != map->end();
}

const State& State::at(std::string_view name) const& {
  const auto& map = as_map();
  const auto entry = map.find(name);
  TORCH_CHECK_VALUE(entry != map.end(), "state: no entry '", name, "' in ", brief(*this), ".");
  return entry->second;
}

State& State::set(std::string_view name, State value) & {
  if (is_null()) value_ = Map{};
  auto* map = std::get_if<Map>(&value_);
  TORCH_CHECK_VALUE(map != nullptr, "state: entry '", name, "' set on a state that is not a map.");
  map->insert_or_assign(std::string(name), std::move(value));
  return *this;
}

bool State::as_bool() const { return get<bool>(value_, "a bool"); }
std::int64_t State::as_int() const { return get<std::int64_t>(value_, "an integer"); }
double State::as_double() const { return get<double>(value_, "a float"); }
const std::string& State::as_string() const& { return get<std::string>(value_, "a string"); }
const State::List& State::as_list() const& { return get<List>(value_, "a list"); }
const State::Map& State::as_map() const& { return get<Map>(value_, "a map"); }

}  // namespace torch_distinput
