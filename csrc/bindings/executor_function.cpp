// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/executor_function.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/stl.h>

#include "base/fork_guard.h"
#include "base/row_names.h"
#include "base/stage.h"
#include "bindings/callable.h"
#include "bindings/convert.h"
#include "bindings/function.h"
#include "bindings/interpreter/calling_python.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/user_object.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/error.h"
#include "torch_distinput/interrupt.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {
namespace {

constexpr double kSecondsOfWait = 0.05;  // between two looks for an interrupt

/// Calls of one function, which `asker` sends to workers. What it returns is the package's own, so that a
/// result is a value or an exception.
class ExecutorCalls final : public FunctionCalls {
 public:
  ExecutorCalls(Callable callable, const MapOptions& options, UserObject asker)
      : callable_(std::move(callable)),
        in_blocks_(options.block > 1),
        asker_(std::move(asker)),
        results_(callable_.where(), Lists::kLeaf, Objects::kCarry, options.element_spec) {}

  std::int64_t worth_a_call() const override {
    return calling_python([&] { return asker_.get().attr("worth_a_call")().cast<std::int64_t>(); });
  }
  bool may_ask() const override {
    return calling_python([&] { return asker_.get().attr("may_ask")().cast<bool>(); });
  }

  std::int64_t ask(std::span<const Element> elements, std::uint64_t key,
                   std::span<const std::int64_t> numbers) override {
    if (fork_guard_.inherited()) {
      throw FailedPreconditionError(
          callable_.where() + ": this iterator belongs to the parent process; make one in this process.");
    }
    const StageScope stage(Stage::kPython);
    return calling_python([&] {
      py::list rows;
      for (Element element : elements) {
        if (in_blocks_) {
          rows.append(element_to_python(std::move(element)));
        } else {
          rows.append(arguments_of(std::move(element)));
        }
      }
      const std::vector<std::int64_t> named(numbers.begin(), numbers.end());
      return asker_.get().attr("ask")(rows, key, named).cast<std::int64_t>();
    });
  }

  std::vector<std::exception_ptr> take(std::int64_t call, std::span<Element> results,
                                       std::span<const std::int64_t> numbers) override {
    std::vector<std::exception_ptr> errors(numbers.size());
    const StageScope waits(Stage::kWait);
    while (!calling_python([&] { return arrived(call, results, numbers, errors); })) {
      if (interrupt_check()) interrupt_check()();
    }
    return errors;
  }

  void forget(std::int64_t call) noexcept override {
    if (!interpreter_alive() || fork_guard_.inherited()) return;
    try {
      const GilScope gil;
      const py::error_scope keep_error;
      const py::object asker = asker_.find();
      if (asker) asker.attr("forget")(call);
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("calls of an executor");
    } catch (const std::exception&) {
      return;  // the interpreter has begun to shut down
    }
  }

  /// All calls are under way at once, however many workers there are.
  std::vector<std::exception_ptr> apply(std::span<Element> elements, std::uint64_t key,
                                        std::span<const std::int64_t> numbers) override {
    std::vector<std::exception_ptr> errors;
    std::vector<Part> parts;
    try {
      const auto most = static_cast<std::size_t>(worth_a_call());
      for (std::size_t first = 0; first < elements.size(); first += most) {
        const std::size_t count = std::min(most, elements.size() - first);
        parts.push_back(
            {first, count, ask(elements.subspan(first, count), key, numbers.subspan(first, count))});
      }
      for (Part& part : parts) {
        auto own = take(part.call, elements.subspan(part.first, part.count),
                        numbers.subspan(part.first, part.count));
        part.count = 0;
        errors.insert(errors.end(), own.begin(), own.end());
      }
    } catch (...) {
      for (const Part& part : parts) {
        if (part.count > 0) forget(part.call);
      }
      throw;
    }
    return errors;
  }

 private:
  struct Part {
    std::size_t first;
    std::size_t count;  ///< 0 once it was taken
    std::int64_t call;
  };

  /// Whether the results of a call are there, which are then read.
  bool arrived(std::int64_t call, std::span<Element> results, std::span<const std::int64_t> numbers,
               std::vector<std::exception_ptr>& errors) const {
    const py::object asker = asker_.get();
    const py::object answers = asker.attr("take")(call, kSecondsOfWait);
    if (answers.is_none()) return false;
    const StageScope stage(Stage::kPython);
    std::size_t row = 0;
    for (const py::handle answer : answers) {
      try {
        results[row] = read(answer, element_name(numbers[row]));
      } catch (...) {
        errors[row] = std::current_exception();
      }
      ++row;
    }
    asker.attr("forget")(call);
    return true;
  }

  Element read(py::handle answer, const std::string& row) const {
    const auto [passed, value] = answer.cast<std::pair<bool, py::object>>();
    if (passed) return results_.read(value, &callable_.object(), row);
    PyErr_SetObject(py::type::of(value).ptr(), value.ptr());
    callable_.fail(row);
  }

  Callable callable_;
  bool in_blocks_;
  UserObject asker_;
  ForkGuard fork_guard_;
  ElementReader results_;
};

class ExecutorFunction final : public ProcessFunction, public PythonCode {
 public:
  /// `here` calls the same function in this process.
  ExecutorFunction(FunctionPtr here, const PythonCode& code, MapOptions options, py::object asker)
      : callable_(code.object(), "map", here->name()),
        here_(std::move(here)),
        options_(std::move(options)),
        asker_(std::move(asker), callable_.object()) {}

  const UserObject& object() const override { return callable_.object(); }
  void apply(std::span<Element> elements) const override { here_->apply(elements); }
  std::int64_t processes() const override { return 1; }
  bool may_open() const override { return !fork_guard_.inherited(); }
  bool in_executor() const override { return true; }
  std::shared_ptr<FunctionProcesses> open() const override {
    return std::make_shared<ExecutorCalls>(callable_, options_, asker_);
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return callable_.name(); }
  std::string content() const override { return here_->content(); }

 private:
  Callable callable_;
  FunctionPtr here_;
  MapOptions options_;
  UserObject asker_;
  ForkGuard fork_guard_;
};

}  // namespace

Dataset with_functions_elsewhere(const Dataset& dataset, const py::function& calls) {
  return dataset.with_other_functions([&](const FunctionPtr& here, const MapOptions& options) -> FunctionPtr {
    const auto* code = dynamic_cast<const PythonCode*>(here.get());
    if (code == nullptr) return nullptr;
    py::object asker = calls(code->object().get(), options.block > 1);
    if (asker.is_none()) return nullptr;
    return std::make_shared<ExecutorFunction>(here, *code, options, std::move(asker));
  });
}

}  // namespace torch_distinput
