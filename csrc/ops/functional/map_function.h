// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/element_type.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/function.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {

/// The name of the threads that run a user's function in parallel.
inline constexpr const char* kMapThreads = "tdi-map";

/// The function of a `map`, with checks of its results. Safe from any thread.
class MapFunction {
 public:
  /// `context` is that of the map; the random numbers of rows depend on it. `processes` run the function;
  /// null: this process does.
  MapFunction(FunctionPtr function, const MapOptions& options, const IterContext& context,
              std::shared_ptr<FunctionProcesses> processes);

  /// Replaces each element by the function's result for it. `numbers` are those of the elements in the
  /// dataset, for random numbers and messages. Throws what the function throws, and c10::ValueError for a
  /// result that does not fit the declared spec or (without one) the type of the first result, or that has
  /// another number of rows with `row_wise`.
  void apply(std::span<Element> elements, std::span<const std::int64_t> numbers) const;
  /// As `apply`, but returns for each element what was thrown for it; null: nothing. Throws LostProcessError,
  /// and interrupts of a wait for other processes.
  std::vector<std::exception_ptr> try_each(std::span<Element> elements,
                                           std::span<const std::int64_t> numbers) const;
  /// A call that was asked for.
  struct Asked {
    std::int64_t call;
    std::vector<std::optional<std::int64_t>> rows;  ///< of its arguments, where results must have as many
  };
  /// `try_each` in two parts. REQUIRES: `calls()` is not null.
  Asked ask(std::span<const Element> elements, std::span<const std::int64_t> numbers) const;
  std::vector<std::exception_ptr> take(const Asked& asked, std::span<Element> results,
                                       std::span<const std::int64_t> numbers) const;
  /// How many elements should be passed at once on the sequential path.
  std::int64_t worth_a_call() const { return processes_ ? processes_->worth_a_call() : 1; }

  /// Whether other processes run the function.
  bool runs_elsewhere() const { return processes_ != nullptr; }
  /// What can be asked for results ahead; null: nothing.
  FunctionCalls* calls() const { return processes_ ? processes_->calls() : nullptr; }
  /// Whether the function is a user's, so that it may block.
  bool runs_user_code() const { return function_->runs_user_code(); }
  /// The call for messages, such as `map(normalise)`.
  const std::string& call() const noexcept { return call_; }

 private:
  using Rows = std::optional<std::int64_t>;

  std::vector<Rows> rows_of(std::span<const Element> elements) const;
  void check_each(std::span<const Element> results, std::span<const std::int64_t> numbers,
                  const std::vector<Rows>& rows, std::vector<std::exception_ptr>& errors) const;
  void check(const Element& result, std::int64_t number, const Rows& rows) const;

  FunctionPtr function_;
  std::shared_ptr<FunctionProcesses> processes_;
  std::optional<ElementSpec> spec_;
  bool row_wise_;
  std::string call_;
  std::uint64_t key_;
  mutable ElementType type_;
};

}  // namespace torch_distinput
