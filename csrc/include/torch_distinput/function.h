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

/// What a user gave a pipeline to run. *user* code may block or need an interpreter's lock: it runs on
/// threads of its own or the caller's, never on the arena.
class TDI_API UserCode {
 public:
  virtual ~UserCode();
  virtual bool runs_user_code() const { return false; }
  /// For messages and `explain`.
  virtual std::string name() const = 0;
};

/// A user's function from element to element. `apply` may be called from many
/// threads at once.
class TDI_API Function : public UserCode {
 public:
  ~Function() override;
  /// Replaces each element by the function's result for it, in order.
  virtual void apply(std::span<Element> elements) const = 0;
  std::string name() const override { return "function"; }
};
using FunctionPtr = std::shared_ptr<const Function>;

/// A native function; it must not block.
TDI_API FunctionPtr make_function(std::function<Element(Element)> function, std::string name = "function");

/// A map-style source of a user: random access to rows.
class TDI_API RowSource : public UserCode {
 public:
  ~RowSource() override;
  virtual std::int64_t size() const = 0;
  /// Rows at `positions`, each in [0, size()). Many threads may call it at once.
  virtual std::vector<Element> rows(std::span<const std::int64_t> positions) const = 0;
  std::string name() const override { return "rows"; }
};

/// One run through a user's generator. One thread at a time.
class TDI_API Generator {
 public:
  virtual ~Generator();
  virtual std::optional<Element> next() = 0;
};

/// Opens a user's generator anew for every iterator.
class TDI_API GeneratorSource : public UserCode {
 public:
  ~GeneratorSource() override;
  virtual std::unique_ptr<Generator> open() const = 0;
  std::string name() const override { return "generator"; }
};

}  // namespace torch_distinput
