// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "bindings/interpreter/py_ref.h"

#include <atomic>
#include <utility>

#include "bindings/interpreter/interpreter.h"

namespace torch_distinput {
namespace {

struct Dropped {
  PyObject* object;
  Dropped* next;
};

/// A stack without locks, because a forked child would inherit a lock in its present state.
std::atomic<Dropped*> dropped = nullptr;

int release_in_main_thread(void*) {
  release_dropped();
  return 0;
}

/// May run a user's finalizer.
void release(PyObject* object) {
  run_python([&] { Py_DECREF(object); });
}

void drop(PyObject* object) noexcept {
  if (!interpreter_alive()) return;
  if (PyGILState_Check() != 0) {
    const py::error_scope keep_error;
    release(object);
    return;
  }
  auto* const entry = new Dropped{object, nullptr};
  Dropped* below = dropped.load();
  do {
    entry->next = below;
  } while (!dropped.compare_exchange_weak(below, entry));
  // Another thread may have deleted the entry by now. Where the interpreter's list of calls is full, the
  // object is released when the next thread takes the GIL.
  if (below == nullptr) static_cast<void>(Py_AddPendingCall(release_in_main_thread, nullptr));
}

}  // namespace

PyRef share(py::object object) { return {object.release().ptr(), drop}; }

void release_dropped() noexcept {
  if (dropped.load(std::memory_order_relaxed) == nullptr) return;
  const py::error_scope keep_error;
  for (Dropped* entry = dropped.exchange(nullptr); entry != nullptr;) {
    release(entry->object);
    delete std::exchange(entry, entry->next);
  }
}

}  // namespace torch_distinput
