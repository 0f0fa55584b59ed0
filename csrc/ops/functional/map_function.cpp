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

MapFunction::MapFunction(FunctionPtr function, const MapOptions& options, const IterContext& context,
                         std::shared_ptr<FunctionProcesses> processes)
    : function_(std::move(function)),
      processes_(std::move(processes)),
      spec_(options.element_spec),
      row_wise_(options.row_wise),
      call_("map(" + function_->name() + ")"),
      key_(context.rows_key()) {}

void MapFunction::apply(std::span<Element> elements, std::span<const std::int64_t> numbers) const {
  if (processes_) {
    for (const std::exception_ptr& error : try_each(elements, numbers)) {
      if (error) std::rethrow_exception(error);
    }
    return;
  }
  const std::vector<Rows> rows = rows_of(elements);
  {
    const RowScope rows_of_call(key_, numbers);
    const auto where = [&] { return call_ + ": " + name_of_row(rows_of_call, numbers); };
    locate_errors(*function_, where, [&] { function_->apply(elements); });
  }
  for (std::size_t i = 0; i < elements.size(); ++i) check(elements[i], numbers[i], rows[i]);
}

std::vector<std::exception_ptr> MapFunction::try_each(std::span<Element> elements,
                                                      std::span<const std::int64_t> numbers) const {
  std::vector<std::exception_ptr> errors(elements.size());
  if (processes_) {
    const std::vector<Rows> rows = rows_of(elements);
    errors = processes_->apply(elements, key_, numbers);
    check_each(elements, numbers, rows, errors);
    return errors;
  }
  for (std::size_t i = 0; i < elements.size(); ++i) {
    try {
      apply(elements.subspan(i, 1), numbers.subspan(i, 1));
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
  return errors;
}

MapFunction::Asked MapFunction::ask(std::span<const Element> elements,
                                    std::span<const std::int64_t> numbers) const {
  return {calls()->ask(elements, key_, numbers), rows_of(elements)};
}

std::vector<std::exception_ptr> MapFunction::take(const Asked& asked, std::span<Element> results,
                                                  std::span<const std::int64_t> numbers) const {
  std::vector<std::exception_ptr> errors = calls()->take(asked.call, results, numbers);
  check_each(results, numbers, asked.rows, errors);
  return errors;
}

/// Notes an error for each result that the function returned and that does not fit.
void MapFunction::check_each(std::span<const Element> results, std::span<const std::int64_t> numbers,
                             const std::vector<Rows>& rows, std::vector<std::exception_ptr>& errors) const {
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (errors[i]) continue;
    try {
      check(results[i], numbers[i], rows[i]);
    } catch (...) {
      errors[i] = std::current_exception();
    }
  }
}

std::vector<MapFunction::Rows> MapFunction::rows_of(std::span<const Element> elements) const {
  std::vector<Rows> rows(elements.size());
  for (std::size_t i = 0; row_wise_ && i < elements.size(); ++i) rows[i] = elements[i].rows();
  return rows;
}

/// `rows`: those of the argument, where the result must have as many.
void MapFunction::check(const Element& result, std::int64_t number, const Rows& rows) const {
  if (spec_) {
    check_element(result, *spec_, call_ + ": element " + std::to_string(number));
  } else {
    type_.check(result, number, call_);
  }
  if (!rows) return;
  const Rows returned = result.rows();
  TORCH_CHECK_VALUE(returned == rows, call_, ": element ", number,
                    ": with `row_wise=True` the function must return as many rows as it gets, but got ",
                    *rows, " rows and returned ", text(returned), " rows.");
}

}  // namespace torch_distinput
