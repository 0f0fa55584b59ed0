// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/map_input.h"

#include <utility>

namespace torch_distinput {

MapInput::MapInput(IteratorPtr input) : input_(std::move(input)) {}

std::optional<MapInput::Item> MapInput::next() {
  while (std::optional<Element> element = input_->next()) {
    const std::int64_t number = number_++;
    if (delivered_.erase(number) == 0) return Item{number, std::move(*element)};
  }
  return std::nullopt;
}

State MapInput::save() const {
  State state;
  state.set("input", input_->save());
  state.set("number", number_);
  state.set("delivered", State::List(delivered_.begin(), delivered_.end()));
  return state;
}

void MapInput::load(const State& state) {
  number_ = state.at("number").as_int();
  delivered_.clear();
  for (const State& number : state.at("delivered").as_list()) delivered_.insert(number.as_int());
  input_->load(state.at("input"));
}

}  // namespace torch_distinput
