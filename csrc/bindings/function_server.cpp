// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/function_server.h"

#include <chrono>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/polling.h"
#include "bindings/function_messages.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/python_error.h"
#include "bindings/workers/decoder.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

class FunctionServer {
 public:
  FunctionServer(const std::shared_ptr<WorkerMemory>& memory, int process, py::object function,
                 const py::object& messages)
      : end_(memory, process),
        task_lane_(memory->workers() / 2 + process),
        tasks_(std::make_shared<SlabsInUse>(memory)),
        function_(std::move(function)),
        messages_(messages) {}

  void serve() {
    std::string frame;
    while (!end_.stopped()) {
      if (end_.receive(frame)) {
        run(std::move(frame));
      } else {
        wait();
      }
    }
  }

 private:
  void run(std::string frame) {
    TaskHead task{};
    std::memcpy(&task, frame.data(), sizeof(task));
    std::vector<std::int64_t> numbers(task.rows);
    const std::size_t number_bytes = numbers.size() * sizeof(std::int64_t);
    std::memcpy(numbers.data(), frame.data() + sizeof(task), number_bytes);
    const Arrived arrived{std::move(frame), SlabsInUse::hold(tasks_, task_lane_, task.beside.slab),
                          task.beside, sizeof(task) + number_bytes};

    const auto start = Clock::now();
    Encoder results(messages_.pickle, true);
    const std::string passed = call_for_each(arrived, task.key, numbers, results);
    send(results, passed, {task.call, std::chrono::nanoseconds(Clock::now() - start).count(), {}});
  }

  /// Appends a result or a packed error for each row; returns which of them passed.
  std::string call_for_each(const Arrived& arrived, std::uint64_t key,
                            const std::vector<std::int64_t>& numbers, Encoder& results) {
    std::string passed(numbers.size(), '\0');
    char* const slab = arrived.slab.get();
    Decoder decoder(messages_.unpickle, arrived.tree(), {arrived.slab, slab + kProgressBytes});
    py::object unreadable;  // the error of a row that cannot be read, and of those after it
    const RowScope rows(key, numbers);
    for (std::size_t row = 0; row < numbers.size(); ++row) {
      progress_of(slab).store(row + 1, std::memory_order_relaxed);
      RowScope::enter(row);
      py::object arguments;
      try {
        if (!unreadable) arguments = decoder.next();
      } catch (py::error_already_set& error) {
        unreadable = packed(error);
      }
      if (unreadable) {
        results.add(unreadable);
      } else {
        passed[row] = call(arguments, results) ? 1 : 0;
      }
    }
    return passed;
  }

  /// Appends the result; or the error, and returns false.
  bool call(const py::object& arguments, Encoder& results) {
    try {
      PyObject* const result = PyObject_CallObject(function_.ptr(), arguments.ptr());
      if (result == nullptr) throw py::error_already_set();
      results.add(py::reinterpret_steal<py::object>(result));
      return true;
    } catch (py::error_already_set& error) {
      results.add(packed(error));
      return false;
    }
  }

  py::object packed(py::error_already_set& error) {
    error.restore();
    const PythonError::Raised raised = PythonError::fetch().take();
    return messages_.pack_error(raised.value);
  }

  void send(const Encoder& results, const std::string& passed, ResultHead head) {
    head.beside = allocate_beside(end_, results, 0);
    write_beside(end_, results, head.beside, 0);
    std::string frame(bytes_of(std::span<const ResultHead>(&head, 1)));
    frame += passed;
    if (head.beside.tree_bytes == 0) frame += results.tree();
    end_.send(frame);
    while (!end_.flushed() && !end_.stopped()) wait();
  }

  void wait() {
    {
      const GilRelease release;
      end_.wait(kPollInterval);
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

  WorkerEnd end_;
  int task_lane_;
  std::shared_ptr<SlabsInUse> tasks_;
  py::object function_;
  MessageFunctions messages_;
};

}  // namespace

void serve_function(const std::shared_ptr<WorkerMemory>& memory, int process, const py::object& function,
                    const py::object& messages) {
  FunctionServer(memory, process, function, messages).serve();
}

}  // namespace torch_distinput
