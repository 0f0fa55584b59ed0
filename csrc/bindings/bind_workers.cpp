// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include <pybind11/pybind11.h>

#include "base/polling.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "bindings/page_locker.h"
#include "bindings/workers/decoder.h"
#include "bindings/workers/encoder.h"
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

class BoundWorkerEnd {
 public:
  BoundWorkerEnd(std::shared_ptr<WorkerMemory> memory, int worker, Pickling pickling)
      : end_(std::move(memory), worker), pickling_(std::move(pickling)) {}

  py::object receive(double seconds) {
    check_owner();
    const Clock::time_point end = after(seconds);
    while (true) {
      if (end_.receive(frame_)) return py::make_tuple(Decoder(pickling_.unpickle, frame_, nullptr).next());
      if (Clock::now() >= end) return py::none();
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
  }

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
        failed_(std::move(failed)) {}

  int fd() const { return end_.memory()->segment().fd(); }
  void close_fd() { end_.memory()->segment().close_fd(); }

  void send(int worker, py::handle task) {
    check_owner();
    Encoder encoder(pickling_.pickle, false);
    encoder.add(task);
    end_.send(worker, encoder.tree());
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
  std::string frame_;
};

std::unique_ptr<BoundConsumerEnd> make_consumer_end(int workers, py::object pickle, py::object unpickle,
                                                    py::object failed, const py::object& page_locks) {
  try {
    std::unique_ptr<PageLocker> locker;
    if (!page_locks.is_none()) {
      locker = std::make_unique<PythonPageLocker>(page_locks.attr("lock"), page_locks.attr("unlock"));
    }
    return std::make_unique<BoundConsumerEnd>(workers, std::move(pickle), std::move(unpickle),
                                              std::move(failed), std::move(locker));
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
           "A tuple of the next task; None where none arrives within `seconds`.")
      .def("send", &BoundWorkerEnd::send, py::arg("task"), py::arg("data"),
           "Sends the result of a task. Raises MemoryError where the shared memory is used up, and what "
           "pickling raises.")
      .def("collate", &BoundWorkerEnd::collate, py::arg("samples"),
           "torch's default_collate of a list of samples, for `send`; None where torch's own must be called.")
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
      .def("send", &BoundConsumerEnd::send, py::arg("worker"), py::arg("task"),
           "Sends a task to a worker; never waits.")
      .def("receive", &BoundConsumerEnd::receive,
           "The next task that was done and its result; None where there is none yet.")
      .def("wait", &BoundConsumerEnd::wait, py::arg("seconds"),
           "Waits for a result, at most `seconds` and not longer than 50 ms; may return early.")
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
