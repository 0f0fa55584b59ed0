// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <c10/util/Exception.h>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"
#include "torch_distinput/function.h"

namespace torch_distinput {

/// A process that ran a user's function has ended. Not the failure of a row, so it is never skipped. Python:
/// a RuntimeError.
class TDI_API LostProcessError : public c10::Error {
 public:
  explicit LostProcessError(const std::string& message);
};

class FunctionCalls;

/// The processes that run a user's function in one run of a pipeline. They start at the first call, and end
/// with this object.
class TDI_API FunctionProcesses {
 public:
  virtual ~FunctionProcesses();
  /// Replaces each element by the function's result for it, whose random numbers are those of a
  /// `RowScope(key, numbers)`. Returns for each element what the function threw, null where it threw nothing.
  /// Safe from any thread; a waiting thread looks at its `interrupt_check`. Throws LostProcessError, from the
  /// loss of a process on at each call.
  virtual std::vector<std::exception_ptr> apply(std::span<Element> elements, std::uint64_t key,
                                                std::span<const std::int64_t> numbers) = 0;
  /// How many elements are worth one call, by the time that the function took so far; at least 1.
  virtual std::int64_t worth_a_call() const = 0;
  /// This object where calls can be asked for before their results are taken; else null.
  virtual FunctionCalls* calls() { return nullptr; }
};

/// Processes that are asked for results ahead, so that no thread waits for each call.
class TDI_API FunctionCalls : public FunctionProcesses {
 public:
  ~FunctionCalls() override;
  FunctionCalls* calls() override { return this; }
  /// Whether another call should be under way.
  virtual bool may_ask() const = 0;
  /// Asks for the results of `apply`; returns the number of the call.
  virtual std::int64_t ask(std::span<const Element> elements, std::uint64_t key,
                           std::span<const std::int64_t> numbers) = 0;
  /// Waits for them, and forgets the call; an interrupt of the wait loses nothing. As `apply` else; `results`
  /// and `numbers` have an entry for each element of the call.
  virtual std::vector<std::exception_ptr> take(std::int64_t call, std::span<Element> results,
                                               std::span<const std::int64_t> numbers) = 0;
  /// Nobody takes these results.
  virtual void forget(std::int64_t call) noexcept = 0;
};

/// A user's function that runs in processes of its own. `apply` runs it in the calling process.
class TDI_API ProcessFunction : public Function {
 public:
  ~ProcessFunction() override;
  /// How many processes are asked for.
  virtual std::int64_t processes() const = 0;
  /// Whether the calling process may have children. One that may not calls `apply`.
  virtual bool may_open() const = 0;
  /// Whether the workers of an executor are these processes, so that their number is not known.
  virtual bool in_executor() const { return false; }
  /// Starts no process yet.
  virtual std::shared_ptr<FunctionProcesses> open() const = 0;
};

}  // namespace torch_distinput
