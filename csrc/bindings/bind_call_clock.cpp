// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <unordered_set>

#include <pybind11/pybind11.h>

#include "base/stage.h"
#include "bindings/call_clock.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/state_guard.h"
#include "bindings/module.h"
#include "torch_distinput/stats.h"

namespace torch_distinput {
namespace {

namespace py = pybind11;

struct CallTimes {
  std::int64_t wait = 0;
  std::int64_t consumer = 0;
  std::array<std::int64_t, Stats::kWaitBins> histogram{};
};

/// What `NextScope` measures, for iterators that Python makes. One thread calls `next` at a time, and others
/// may read meanwhile. Guarded by the GIL, or by StateGuard.
struct CallClock {
  CallTimes times;
  std::int64_t began = 0;
  std::int64_t returned = 0;
  std::thread::id caller;  ///< the thread inside a call

  CallClock();
  ~CallClock();
  CallClock(const CallClock&) = delete;
  CallClock& operator=(const CallClock&) = delete;
};

/// Guarded as they are; never destroyed, because clocks may outlive static objects.
std::unordered_set<const CallClock*>& all_clocks() {
  static auto* const clocks = new std::unordered_set<const CallClock*>;
  return *clocks;
}

CallClock::CallClock() {
  const StateGuard guard;
  all_clocks().insert(this);
}

CallClock::~CallClock() {
  const StateGuard guard;
  all_clocks().erase(this);
}

constexpr const char* kCapsule = "torch_distinput.CallClock";

CallClock& clock_of(PyObject* capsule) {
  return *static_cast<CallClock*>(PyCapsule_GetPointer(capsule, kCapsule));
}

PyObject* begin_call(PyObject* self, PyObject*) {
  park_daemon();
  CallClock& clock = clock_of(self);
  const std::int64_t now = clock_ns();
  const StateGuard guard;
  clock.began = now;
  clock.caller = std::this_thread::get_id();
  Py_RETURN_NONE;
}

void note_end(CallClock& clock) {
  const std::int64_t now = clock_ns();
  const StateGuard guard;
  clock.caller = {};
  const std::int64_t time = now - clock.began;
  if (clock.returned != 0) clock.times.consumer += clock.began - clock.returned;
  clock.returned = now;
  clock.times.wait += time;
  const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(time) / 1000));
  ++clock.times.histogram[std::min(bin, Stats::kWaitBins - 1)];
}

PyObject* end_call(PyObject* self, PyObject*) {
  note_end(clock_of(self));
  park_daemon();
  Py_RETURN_NONE;
}

PyMethodDef begin_method{"begin", begin_call, METH_NOARGS, "begin()\n\nA call of next begins."};
PyMethodDef end_method{"end", end_call, METH_NOARGS, "end()\n\nIt returns something."};

py::object method(PyMethodDef& definition, const py::capsule& clock) {
  return py::reinterpret_steal<py::object>(PyCFunction_New(&definition, clock.ptr()));
}

/// Functions of CPython's own kind, because a call through pybind11 costs more than what is measured here may
/// cost.
py::tuple make_call_clock() {
  const py::capsule clock(new CallClock(), kCapsule, [](PyObject* capsule) { delete &clock_of(capsule); });
  const auto read = [clock] {
    const CallTimes now = [&] {
      const StateGuard guard;
      return clock_of(clock.ptr()).times;
    }();
    py::tuple histogram(now.histogram.size());
    for (std::size_t i = 0; i < now.histogram.size(); ++i) histogram[i] = py::int_(now.histogram[i]);
    return py::make_tuple(now.wait, now.consumer, histogram);
  };
  return py::make_tuple(method(begin_method, clock), method(end_method, clock), py::cpp_function(read));
}

}  // namespace

bool others_are_in_calls() {
  const StateGuard guard;
  return std::any_of(all_clocks().begin(), all_clocks().end(), [](const CallClock* clock) {
    return clock->caller != std::thread::id() && clock->caller != std::this_thread::get_id();
  });
}

void bind_call_clock(py::module_& module) {
  module.def(
      "call_clock", make_call_clock,
      "Measures the calls of an iterator that Python makes: a function for the start of a call, one for "
      "the end of a call that returns something, and one that returns the time inside calls, the time "
      "between them (both in ns), and the number of calls by their time, as in `Stats.wait_histogram`.");
}

}  // namespace torch_distinput
