// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/map_input.h"

#include <utility>
#include <variant>

#include <c10/util/Exception.h>

#include "core/state_reader.h"

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
  return State()
      .set("input", input_->save())
      .set("number", number_)
      .set("delivered", State::List(delivered_.begin(), delivered_.end()));
}

void MapInput::load(const State& state) {
  const StateReader saved(state, "map");
  number_ = saved.count("number");
  delivered_.clear();
  for (const State& number : saved.list("delivered")) {
    const auto* delivered = std::get_if<std::int64_t>(&number.value());
    TORCH_CHECK_VALUE(delivered != nullptr && *delivered >= number_, "map: the saved `delivered` must be ",
                      "integers from `number`, ", number_, ", on, but has ", brief(number), ".");
    delivered_.insert(*delivered);
  }
  input_->load(saved.at("input"));
}

}  // namespace torch_distinput
