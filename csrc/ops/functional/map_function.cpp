// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/map_function.h"

#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/locate_errors.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

std::string text(std::optional<std::int64_t> rows) {
  return rows ? std::to_string(*rows) : "no common number of";
}

std::string name_of_row(const RowScope& rows, std::span<const std::int64_t> numbers) {
  if (const auto number = rows.number()) return "element " + std::to_string(*number);
  return "one of " + std::to_string(numbers.size()) + " elements from " + std::to_string(numbers.front());
}

}  // namespace

MapFunction::MapFunction(FunctionPtr function, const MapOptions& options, const IterContext& context)
    : function_(std::move(function)),
      spec_(options.element_spec),
      row_wise_(options.row_wise),
      call_("map(" + function_->name() + ")"),
      key_(context.rows_key()) {}

void MapFunction::apply(std::span<Element> elements, std::span<const std::int64_t> numbers) const {
  std::vector<std::optional<std::int64_t>> rows;
  if (row_wise_) {
    for (const Element& element : elements) rows.push_back(element.rows());
  }
  {
    const RowScope rows_of(key_, numbers);
    const auto where = [&] { return call_ + ": " + name_of_row(rows_of, numbers); };
    locate_errors(*function_, where, [&] { function_->apply(elements); });
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    check(elements[i], numbers[i]);
    if (!row_wise_ || !rows[i]) continue;
    const std::optional<std::int64_t> returned = elements[i].rows();
    TORCH_CHECK_VALUE(returned == rows[i], call_, ": element ", numbers[i],
                      ": with `row_wise=True` the function must return as many rows as it gets, but got ",
                      *rows[i], " rows and returned ", text(returned), " rows.");
  }
}

void MapFunction::check(const Element& result, std::int64_t number) const {
  if (spec_) {
    check_element(result, *spec_, call_ + ": element " + std::to_string(number));
  } else {
    type_.check(result, number, call_);
  }
}

}  // namespace torch_distinput
