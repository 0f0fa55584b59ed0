// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>

#include "base/polling.h"
#include "bindings/interpreter/gil.h"
#include "bindings/interpreter/state_guard.h"
#include "bindings/module.h"
#include "bindings/page_locker.h"
#include "bindings/workers/decoder.h"
#include "bindings/workers/encoder.h"
#include "device/transfer/device_node.h"
#include "device/transfer/host_reads.h"
#include "workers/consumer_end.h"
#include "workers/process_watch.h"
#include "workers/worker_end.h"

namespace torch_distinput {
namespace {

using Clock = std::chrono::steady_clock;

/// Trees above this size travel in the slab, so that a ring holds many results.
constexpr std::size_t kMaxInRing = 4096;

/// What a result's frame begins with; the tree follows where it is not in the slab.
struct ResultHead {
  std::uint64_t slab;     // 0: none
  std::uint64_t tree_at;  // its offset in the slab, where `tree_bytes` is not 0
  std::uint64_t tree_bytes;
  std::uint64_t bytes;  // of the slab that are in use
};

/// Stands for the number of a task that has none: one that begins another epoch.
constexpr std::int64_t kNoNumber = -1;

/// How values are pickled: by functions of the package.
struct Pickling {
  py::object pickle;
  py::object unpickle;
};

Clock::time_point after(double seconds) {
  // Clamps the timeout to what the clock can represent.
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::clamp(seconds, 0.0, 1e9)));
}

std::chrono::nanoseconds slice_until(Clock::time_point end) {
  return std::min<std::chrono::nanoseconds>(kPollInterval, end - Clock::now());
}

void check_signals() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
}

/// The number of a task `(number, ...)`, or of a result, which begins with the number itself.
std::int64_t number_of(py::handle task) {
  PyObject* found = task.ptr();
  if (PyTuple_Check(found) && PyTuple_GET_SIZE(found) > 0) found = PyTuple_GET_ITEM(found, 0);
  if (!PyLong_Check(found)) return kNoNumber;
  int overflow = 0;
  const std::int64_t number = PyLong_AsLongLongAndOverflow(found, &overflow);
  return overflow != 0 || number < 0 ? kNoNumber : number;
}

class BoundWorkerEnd {
 public:
  BoundWorkerEnd(std::shared_ptr<WorkerMemory> memory, int worker, Pickling pickling)
      : end_(std::move(memory), worker), pickling_(std::move(pickling)) {}

  py::object receive(double seconds) {
    check_owner();
    const Clock::time_point end = after(seconds);
    while (true) {
      if (end_.receive(frame_)) {
        py::object task = Decoder(pickling_.unpickle, frame_, nullptr).next();
        const std::int64_t number = number_of(task);
        if (number >= 0) end_.activity().begin(number);
        if (number < 0 || end_.wanted()) return py::make_tuple(std::move(task));
        send(py::int_(number), py::none());
        continue;
      }
      if (Clock::now() >= end) {
        end_.give_back();
        return py::none();
      }
      wait(slice_until(end));
    }
  }

  void send(py::handle task, py::handle data) {
    check_owner();
    Encoder encoder(pickling_.pickle, true);
    encoder.add(task);
    encoder.add(data);
    const std::string& tree = encoder.tree();
    ResultHead head{0, 0, 0, 0};
    std::uint64_t bytes = encoder.bytes();
    if (tree.size() > kMaxInRing) {
      head.tree_at = bytes;
      head.tree_bytes = tree.size();
      bytes += tree.size();
    }
    if (bytes > 0) {
      head.slab = end_.allocate(bytes);
      if (head.slab == 0) {
        PyErr_Format(PyExc_MemoryError,
                     "DataLoader: the batches in use leave no room for one of %llu bytes in the memory that "
                     "is shared with the workers.",
                     static_cast<unsigned long long>(bytes));
        throw py::error_already_set();
      }
      char* const slab = end_.at(head.slab);
      encoder.copy_to(slab);
      tree.copy(slab + head.tree_at, head.tree_bytes);
      head.bytes = bytes;
    }
    frame_.assign(reinterpret_cast<const char*>(&head), sizeof(head));
    if (head.tree_bytes == 0) frame_ += tree;
    end_.send(frame_);
    while (!end_.flushed() && !end_.stopped()) wait(kPollInterval);
    end_.activity().end();
  }

  void announce(int stack_fd) { end_.activity().announce(stack_fd); }

  py::object collate(py::handle samples) {
    Collated collated{Encoder(pickling_.pickle, true)};
    if (!collated.encoder.add_collated(samples)) return py::none();
    return py::cast(std::move(collated));
  }

  bool stopped() const { return end_.stopped(); }

 private:
  void wait(std::chrono::nanoseconds limit) {
    {
      const GilRelease release;
      end_.wait(limit);
    }
    check_signals();
  }

  void check_owner() const {
    if (!end_.own())
      throw std::runtime_error("DataLoader: this process was forked from a worker and cannot serve as one.");
  }

  WorkerEnd end_;
  Pickling pickling_;
  std::string frame_;
};

class BoundConsumerEnd {
 public:
  BoundConsumerEnd(int workers, py::object pickle, py::object unpickle, py::object failed,
                   std::unique_ptr<PageLocker> locker)
      : end_(std::make_shared<WorkerMemory>(workers), std::move(locker)),
        pickling_{std::move(pickle), std::move(unpickle)},
        failed_(std::move(failed)),
        sent_(static_cast<std::size_t>(workers)) {}

  void place_near_device() {
    const SharedSegment& segment = end_.memory()->segment();
    torch_distinput::place_near_device(segment.data(), segment.size());
  }
  int fd() const { return end_.memory()->segment().fd(); }
  void close_fd() { end_.memory()->segment().close_fd(); }

  void send(int worker, py::handle task) {
    check_owner();
    send_encoded(worker, task);
    if (!task.is_none()) sent_[worker].push_back(py::reinterpret_borrow<py::object>(task));
  }

  void pass_over(int worker) {
    check_owner();
    end_.pass_over(worker);
  }

  py::object receive() {
    check_owner();
    const int worker = end_.receive(frame_);
    if (worker < 0) return py::none();
    ResultHead head{};
    std::memcpy(&head, frame_.data(), sizeof(head));
    std::shared_ptr<char> slab;
    if (head.slab != 0) slab = SlabsInUse::hold(end_.slabs(), worker, head.slab);
    const std::string_view tree = head.tree_bytes == 0
                                      ? std::string_view(frame_).substr(sizeof(head))
                                      : std::string_view(slab.get() + head.tree_at, head.tree_bytes);
    Decoder decoder(pickling_.unpickle, tree, slab, lock_pages(head, slab));
    py::object task = decoder.next();
    note_done(worker, number_of(task));
    try {
      return py::make_tuple(std::move(task), decoder.next());
    } catch (py::error_already_set& error) {
      return py::make_tuple(std::move(task), failed_(error.value()));
    }
  }

  void wait(double seconds) {
    const Clock::time_point end = after(seconds);
    {
      const GilRelease release;
      end_.wait(slice_until(end));
    }
    check_signals();
  }

  py::list unfinished(int worker) const {
    py::list tasks;
    for (const py::object& task : sent_.at(worker)) tasks.append(task);
    return tasks;
  }

  py::tuple activity(int worker) const {
    const Activity now = end_.activity(worker);
    const double seconds = std::chrono::duration<double>(now.duration).count();
    py::object task = now.kind == Activity::Kind::kBusy ? py::object(py::int_(now.task)) : py::none();
    return py::make_tuple(now.kind != Activity::Kind::kStarting, std::move(task), seconds, now.stack_fd);
  }

  py::object renew(int worker) {
    check_owner();
    end_.renew(worker);
    std::deque<py::object>& sent = sent_.at(worker);
    py::object beginning = py::none();
    const auto last = std::find_if(sent.rbegin(), sent.rend(),
                                   [](const py::object& task) { return number_of(task) == kNoNumber; });
    if (last != sent.rend()) {
      beginning = *last;
      sent.erase(sent.begin(), last.base());
    }
    for (const py::object& task : sent) send_encoded(worker, task);
    return beginning;
  }

  void wake() { end_.wake(); }
  void stop() { end_.memory()->stop(); }
  void end() {
    if (!own()) return;
    HostReads::collect();
    end_.slabs()->end();
  }
  bool own() const { return end_.own(); }

  std::unique_ptr<BoundWorkerEnd> worker(int worker) {
    return std::make_unique<BoundWorkerEnd>(end_.memory(), worker, pickling_);
  }

 private:
  void check_owner() const {
    if (!own()) {
      throw std::runtime_error(
          "DataLoader: this iterator belongs to the parent process; make one in the forked process.");
    }
  }

  void send_encoded(int worker, py::handle task) {
    Encoder encoder(pickling_.pickle, false);
    encoder.add(task);
    end_.send(worker, encoder.tree());
  }

  /// Forgets the task that was done, and those before it, which a worker skips at the end of its stream.
  void note_done(int worker, std::int64_t number) {
    std::deque<py::object>& sent = sent_[worker];
    for (bool found = false; !found && !sent.empty(); sent.pop_front()) {
      found = number_of(sent.front()) == number;
    }
  }

  /// What holds the tensors of a slab that is page-locked; null where it is not.
  Decoder::Holder lock_pages(const ResultHead& head, const std::shared_ptr<char>& slab) {
    if (head.slab == 0 || !end_.slabs()->cover(head.slab, head.bytes)) return nullptr;
    try {
      auto reads = std::make_shared<HostReads>(slab);
      return [reads](char* data) { return reads->at(data); };
    } catch (const std::exception&) {
      end_.slabs()->uncover(head.slab);
      return nullptr;
    }
  }

  ConsumerEnd end_;
  Pickling pickling_;
  py::object failed_;
  std::vector<std::deque<py::object>> sent_;  // by worker: tasks whose results have not arrived
  std::string frame_;
};

std::unique_ptr<BoundConsumerEnd> make_consumer_end(int workers, py::object pickle, py::object unpickle,
                                                    py::object failed, const py::object& page_locks) {
  try {
    std::unique_ptr<PageLocker> locker;
    if (!page_locks.is_none()) {
      locker = std::make_unique<PythonPageLocker>(page_locks.attr("lock"), page_locks.attr("unlock"));
    }
    const bool for_device = locker != nullptr;
    auto end = std::make_unique<BoundConsumerEnd>(workers, std::move(pickle), std::move(unpickle),
                                                  std::move(failed), std::move(locker));
    if (for_device) end->place_near_device();
    return end;
  } catch (const std::system_error& error) {
    PyErr_SetString(PyExc_OSError, error.what());
    throw py::error_already_set();
  }
}

}  // namespace

void bind_workers(py::module_& module) {
  const py::class_<Collated> collated(module, "Collated",
                                      "A batch of a worker on its way into shared memory.");
  py::class_<SharedBuffer>(module, "SharedBuffer", py::buffer_protocol(),
                           "Memory of a batch, which this object holds.")
      .def_buffer([](SharedBuffer& self) {
        return py::buffer_info(reinterpret_cast<std::uint8_t*>(self.memory.get()),
                               static_cast<py::ssize_t>(self.bytes));
      });
  py::class_<BoundWorkerEnd>(module, "WorkerEnd", "A worker's end of a pool. One thread at a time.")
      .def(py::init([](int fd, int worker, py::object pickle, py::object unpickle) {
             return std::make_unique<BoundWorkerEnd>(WorkerMemory::attach(fd), worker,
                                                     Pickling{std::move(pickle), std::move(unpickle)});
           }),
           py::arg("fd"), py::arg("worker"), py::arg("pickle"), py::arg("unpickle"),
           "Attaches a process that was not forked from the consumer's; owns the descriptor `fd`.")
      .def("receive", &BoundWorkerEnd::receive, py::arg("seconds"),
           "A tuple of the next task; None where none arrives within `seconds`: then memory that no batch "
           "uses is "
           "given back to the system.")
      .def("send", &BoundWorkerEnd::send, py::arg("task"), py::arg("data"),
           "Sends the result of a task. Raises MemoryError where the shared memory is used up, and what "
           "pickling raises.")
      .def("collate", &BoundWorkerEnd::collate, py::arg("samples"),
           "torch's default_collate of a list of samples, for `send`; None where torch's own must be called.")
      .def("announce", &BoundWorkerEnd::announce, py::arg("stack_fd"),
           "Tells the consumer this process's descriptor of the file to which it writes its stack.")
      .def_property_readonly("stopped", &BoundWorkerEnd::stopped,
                             "Whether the consumer has stopped the pool.");
  py::class_<BoundConsumerEnd>(
      module, "ConsumerEnd",
      "The end of the process that uses the batches of a pool of workers, and its shared memory.")
      .def(
          py::init(&make_consumer_end), py::arg("workers"), py::arg("pickle"), py::arg("unpickle"),
          py::arg("failed"), py::arg("page_locks") = py::none(),
          "Raises OSError where the system has no such memory. `failed(error)` is the result of a task whose "
          "result cannot be read. `page_locks`: an object whose methods `lock(address, bytes)`, which "
          "returns "
          "whether it did, and `unlock(address)` keep memory in its place, so that devices copy from it.")
      .def_property_readonly("fd", &BoundConsumerEnd::fd, "Descriptor of the memory; -1 once it is closed.")
      .def("close_fd", &BoundConsumerEnd::close_fd,
           "Closes the descriptor; to be called once all workers run.")
      .def("send", one_at_a_time(&BoundConsumerEnd::send), py::arg("worker"), py::arg("task"),
           "Sends a task to a worker; never waits.")
      .def("pass_over", one_at_a_time(&BoundConsumerEnd::pass_over), py::arg("worker"),
           "Tells a worker that the numbered tasks sent so far are not wanted: the results of those that it "
           "has "
           "not begun are None.")
      .def("receive", one_at_a_time(&BoundConsumerEnd::receive),
           "The next task that was done and its result; None where there is none yet.")
      .def("wait", &BoundConsumerEnd::wait, py::arg("seconds"),
           "Waits for a result, at most `seconds` and not longer than 50 ms; may return early.")
      .def("unfinished", one_at_a_time(&BoundConsumerEnd::unfinished), py::arg("worker"),
           "The tasks that were sent to a worker and whose results were not received, in order.")
      .def("activity", &BoundConsumerEnd::activity, py::arg("worker"),
           "What a worker does: whether it has begun at all; the number of its task, or None; for how many "
           "seconds; its descriptor given to `announce`, or -1.")
      .def(
          "renew", one_at_a_time(&BoundConsumerEnd::renew), py::arg("worker"),
          "Prepares another process for the place of a worker that has ended, whose results were all "
          "received: sends its unfinished tasks again. Returns the one that was to begin another epoch, with "
          "which the new worker begins anyway, or None.")
      .def("wake", &BoundConsumerEnd::wake, "Ends `wait` in another thread.")
      .def("stop", &BoundConsumerEnd::stop, "Tells the workers that nothing is wanted any more.")
      .def("end", &BoundConsumerEnd::end,
           "Gives back the memory that no batch uses; to be called when no worker runs any more.")
      .def_property_readonly("own", &BoundConsumerEnd::own, "Whether this process made it, not a parent.")
      .def("worker", &BoundConsumerEnd::worker, py::arg("worker"), "The end of a worker, in its process.");
  module.def(
      "end_with_process",
      [](int process, bool parent, double grace) {
        end_with_process(process, parent, std::chrono::milliseconds(std::lround(grace * 1000)));
      },
      py::arg("process"), py::arg("parent"), py::arg("grace"),
      "Ends this process `grace` seconds after `process`, whether or not Python code still runs.");
}

}  // namespace torch_distinput
