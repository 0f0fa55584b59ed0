// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "torch_distinput/api.h"
#include "torch_distinput/element.h"

namespace torch_distinput {

/// Code that a user gave a pipeline to run.
class TDI_API UserCode {
 public:
  virtual ~UserCode();
  /// True where the code may block or need an interpreter's lock (Python): it then runs on threads of its own
  /// or on the caller's, never on the arena.
  virtual bool runs_user_code() const { return false; }
  /// The user's name for it, in messages and `explain`.
  virtual std::string name() const = 0;
  /// True where what it throws says by itself where it was thrown, as Python's exceptions do. Otherwise the
  /// op that calls it adds its name and the row (`UserCodeError`).
  virtual bool locates_errors() const { return false; }
  /// What tells the data that the code reads from other data of the same name and size; "" where nothing
  /// does. Processes compare it, so it must be equal for equal data in all of them. Takes no row.
  virtual std::string content() const { return {}; }
};

/// A user's function from element to element.
class TDI_API Function : public UserCode {
 public:
  ~Function() override;
  /// Replaces each element by the function's result for it, in order. Safe from any thread. What it throws,
  /// the op's `next` throws, unless the options skip rows that fail.
  virtual void apply(std::span<Element> elements) const = 0;
  std::string name() const override { return "function"; }
};
using FunctionPtr = std::shared_ptr<const Function>;

/// A native function. It must not block and must be safe from any thread. It may write to the tensors that it
/// gets and keep them, but not resize them: those of several rows may share memory. Throws c10::ValueError
/// for an empty `function`.
TDI_API FunctionPtr make_function(std::function<Element(Element)> function, std::string name = "function");

/// A user's map-style source: random access to rows.
class TDI_API RowSource : public UserCode {
 public:
  ~RowSource() override;
  /// Number of rows, at least 0.
  virtual std::int64_t size() const = 0;
  /// The rows at `positions`, each in [0, size()), in that order. Safe from any thread.
  virtual std::vector<Element> rows(std::span<const std::int64_t> positions) const = 0;
  std::string name() const override { return "rows"; }
};

/// One run of a user's generator. One thread at a time. One that waits for its data looks at `cancelled`.
class TDI_API Generator {
 public:
  virtual ~Generator();
  /// The next element, or nullopt at the end.
  virtual std::optional<Element> next() = 0;
};

/// Opens a user's generator anew for every iterator.
class TDI_API GeneratorSource : public UserCode {
 public:
  ~GeneratorSource() override;
  /// A new run from the first element. Each run must yield the same elements, or a restored position is
  /// another one. Safe from any thread.
  virtual std::unique_ptr<Generator> open() const = 0;
  std::string name() const override { return "generator"; }
};

}  // namespace torch_distinput
