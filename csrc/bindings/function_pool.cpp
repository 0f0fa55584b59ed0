// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/function_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/fork_guard.h"
#include "base/row_names.h"
#include "base/stage.h"
#include "bindings/callable.h"
#include "bindings/convert.h"
#include "bindings/function.h"
#include "bindings/function_link.h"
#include "bindings/function_messages.h"
#include "bindings/interpreter/calling_python.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/py_ref.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/workers/decoder.h"
#include "torch_distinput/error.h"
#include "torch_distinput/process_function.h"

namespace torch_distinput {
namespace {

/// What the rows of a message should take: much more than a message does, and so little that all processes
/// have some.
constexpr std::int64_t kTimeOfCall = 4'000'000;  // ns
constexpr std::int64_t kMostRows = 64;

py::object borrow(const PyRef& ref) { return py::reinterpret_borrow<py::object>(ref.get()); }

/// Processes that run, and the link to them.
class RunningProcesses {
 public:
  /// REQUIRES: the GIL.
  RunningProcesses(const Callable& callable, const PyRef& processes, int count)
      : link_(count, [this] { return ended(); }, callable.where()), messages_(borrow(processes)) {
    handle_ = share(borrow(processes).attr("start")(py::cast(link_.memory()), callable.object().get()));
  }
  ~RunningProcesses() {
    if (!interpreter_alive()) return;
    try {
      const GilScope gil;
      const py::error_scope keep_error;
      try {
        borrow(handle_).attr("end")();
      } catch (py::error_already_set& error) {
        error.discard_as_unraisable("the end of the processes of a map");
      }
      link_.end();
    } catch (const std::exception&) {
      return;  // the interpreter has begun to shut down
    }
  }
  RunningProcesses(const RunningProcesses&) = delete;
  RunningProcesses& operator=(const RunningProcesses&) = delete;

  FunctionLink& link() noexcept { return link_; }
  const MessageFunctions& messages() const noexcept { return messages_; }

 private:
  std::vector<EndedProcess> ended() const {
    return calling_python([&] {
      std::vector<EndedProcess> result;
      for (const py::handle entry : borrow(handle_).attr("ended")()) {
        const auto [process, how] = entry.cast<std::pair<int, std::string>>();
        result.push_back({process, how});
      }
      return result;
    });
  }

  FunctionLink link_;
  MessageFunctions messages_;
  PyRef handle_;
};

class FunctionPool final : public FunctionProcesses {
 public:
  FunctionPool(Callable callable, const std::optional<ElementSpec>& declared, PyRef processes, int count)
      : callable_(std::move(callable)),
        processes_(std::move(processes)),
        count_(count),
        results_(callable_.where(), Lists::kLeaf, Objects::kCarry, declared) {}
  ~FunctionPool() override {
    if (!fork_guard_.inherited()) return;
    [[maybe_unused]] const auto* const of_parent = running_.release();
  }
  FunctionPool(const FunctionPool&) = delete;
  FunctionPool& operator=(const FunctionPool&) = delete;

  std::vector<std::exception_ptr> apply(std::span<Element> elements, std::uint64_t key,
                                        std::span<const std::int64_t> numbers) override {
    start();
    std::vector<std::exception_ptr> errors(elements.size());
    std::vector<Sent> sent;
    {
      const StageScope stage(Stage::kPython);
      calling_python([&] {
        const std::int64_t rows = std::ssize(elements);
        const std::int64_t parts = (rows + worth_a_call() - 1) / worth_a_call();
        for (std::int64_t part = 0; part < parts; ++part) {
          const auto first = static_cast<std::size_t>(rows * part / parts);
          const auto end = static_cast<std::size_t>(rows * (part + 1) / parts);
          sent.push_back(send(elements, first, end, key, numbers, errors));
        }
      });
    }
    for (const Sent& one : sent) {
      if (one.call == nullptr) continue;
      const Arrived arrived = running_->link().wait_for(*one.call);
      measure(*one.call);
      const StageScope stage(Stage::kPython);
      calling_python([&] { read(arrived, one, elements, errors); });
    }
    return errors;
  }

  std::int64_t worth_a_call() const override {
    const std::int64_t time = time_of_row_;
    return time == 0 ? 1 : std::clamp<std::int64_t>(kTimeOfCall / time, 1, kMostRows);
  }

 private:
  struct Sent {
    FunctionCallPtr call;           ///< null where no row could be sent
    std::vector<std::size_t> rows;  ///< which elements they are
  };

  void start() {
    if (fork_guard_.inherited()) {
      throw FailedPreconditionError(
          callable_.where() + ": this iterator belongs to the parent process; make one in this process.");
    }
    const std::lock_guard lock(starting_);
    if (running_) return;
    try {
      calling_python([&] { running_ = std::make_unique<RunningProcesses>(callable_, processes_, count_); });
    } catch (const std::system_error& error) {
      throw SystemError(
          callable_.where() + ": the system has no memory that processes share: " + error.what(),
          error.code().value());
    }
  }

  /// Sends the elements [first, end) that can be pickled; `errors` gets what the others raise.
  Sent send(std::span<Element> elements, std::size_t first, std::size_t end, std::uint64_t key,
            std::span<const std::int64_t> numbers, std::vector<std::exception_ptr>& errors) {
    Encoder arguments(running_->messages().pickle, true);
    Sent sent;
    std::vector<std::int64_t> sent_numbers;
    for (std::size_t row = first; row < end; ++row) {
      try {
        add(arguments, arguments_of(std::move(elements[row])), numbers[row]);
        sent.rows.push_back(row);
        sent_numbers.push_back(numbers[row]);
      } catch (const std::exception&) {
        errors[row] = std::current_exception();
      }
    }
    if (!sent.rows.empty()) sent.call = running_->link().send(arguments, key, std::move(sent_numbers));
    return sent;
  }

  void add(Encoder& arguments, const py::object& row, std::int64_t number) const {
    try {
      arguments.add(row);
    } catch (py::error_already_set& error) {
      error.restore();
      callable_.fail(element_name(number));
    }
  }

  void read(const Arrived& arrived, const Sent& sent, std::span<Element> elements,
            std::vector<std::exception_ptr>& errors) const {
    const std::string_view passed = arrived.after_head(sizeof(ResultHead));
    Decoder decoder(running_->messages().unpickle, arrived.tree(), arrived.slab);
    for (std::size_t i = 0; i < sent.rows.size(); ++i) {
      const std::size_t row = sent.rows[i];
      try {
        elements[row] = read(decoder, passed[i] != 0, element_name(sent.call->numbers[i]));
      } catch (...) {
        errors[row] = std::current_exception();
      }
    }
  }

  Element read(Decoder& decoder, bool passed, const std::string& row) const {
    py::object value;
    try {
      value = decoder.next();
      if (passed) return results_.read(value, &callable_.object(), row);
      const py::object error = running_->messages().unpack_error(value);
      PyErr_SetObject(py::type::of(error).ptr(), error.ptr());
    } catch (py::error_already_set& error) {
      error.restore();
    }
    callable_.fail(row);
  }

  void measure(const FunctionCall& call) {
    const std::int64_t time = std::max<std::int64_t>(1, call.nanoseconds / std::ssize(call.numbers));
    const std::int64_t before = time_of_row_;
    time_of_row_ = before == 0 ? time : (3 * before + time) / 4;
  }

  Callable callable_;
  PyRef processes_;
  int count_;
  ForkGuard fork_guard_;
  ElementReader results_;
  std::mutex starting_;
  std::unique_ptr<RunningProcesses> running_;  ///< null before the first call; leaked in a forked child
  std::atomic<std::int64_t> time_of_row_{0};   ///< ns, as the processes measure it; 0: not known yet
};

class PythonProcessFunction final : public ProcessFunction, public PythonCode {
 public:
  /// `here` runs the same callable in this process.
  PythonProcessFunction(FunctionPtr here, const std::optional<ElementSpec>& declared,
                        const py::object& processes)
      : callable_(dynamic_cast<const PythonCode&>(*here).object(), "map", here->name()),
        here_(std::move(here)),
        declared_(declared),
        processes_(share(processes)),
        count_(processes.attr("count").cast<int>()) {}

  const UserObject& object() const override { return callable_.object(); }
  void apply(std::span<Element> elements) const override { here_->apply(elements); }
  std::int64_t processes() const override { return count_; }
  bool may_open() const override {
    return calling_python([&] { return borrow(processes_).attr("allowed")().cast<bool>(); });
  }
  std::shared_ptr<FunctionProcesses> open() const override {
    return std::make_shared<FunctionPool>(callable_, declared_, processes_, count_);
  }
  bool runs_user_code() const override { return true; }
  bool locates_errors() const override { return true; }
  std::string name() const override { return callable_.name(); }

 private:
  Callable callable_;
  FunctionPtr here_;
  std::optional<ElementSpec> declared_;
  PyRef processes_;
  int count_;
};

}  // namespace

FunctionPtr make_process_function(py::object callable, const std::optional<ElementSpec>& declared,
                                  const py::object& processes) {
  return std::make_shared<PythonProcessFunction>(make_python_function(std::move(callable), "map", declared),
                                                 declared, processes);
}

}  // namespace torch_distinput
