// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/element_type.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/function.h"

namespace torch_distinput {

/// The function of a `map`, with checks of what it returns. Any thread may call.
class MapFunction {
 public:
  /// `context`: of the map, for the random numbers of rows.
  MapFunction(FunctionPtr function, const MapOptions& options, const IterContext& context);

  /// Replaces each element by the function's result for it. `numbers`: theirs in
  /// the dataset, for messages. Throws what the function throws, and
  /// c10::ValueError for a result that does not fit the declared spec or (without
  /// one) the type of the results before, or that has other rows under `row_wise`.
  void apply(std::span<Element> elements, std::span<const std::int64_t> numbers) const;

  bool runs_user_code() const { return function_->runs_user_code(); }
  /// `map(normalise)`.
  const std::string& call() const noexcept { return call_; }

 private:
  void check(const Element& result, std::int64_t number) const;

  FunctionPtr function_;
  std::optional<ElementSpec> spec_;
  bool row_wise_;
  std::string call_;
  std::uint64_t key_;
  mutable ElementType type_;
};

}  // namespace torch_distinput
