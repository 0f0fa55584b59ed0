// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/convert.h"
#include "bindings/iterator_handle.h"
#include "bindings/module.h"
#include "torch_distinput/dataset.h"

namespace torch_distinput {
namespace {

using DatasetIteratorHandle = IteratorHandle<DatasetIterator>;

py::object next(DatasetIteratorHandle& self) {
  auto element = self.call([](DatasetIterator& iterator) { return iterator.next(); });
  if (!element) throw py::stop_iteration();
  return element_to_python(*std::move(element));
}

/// Never throws, so that a debugger can show an iterator in any condition.
std::string repr(DatasetIteratorHandle& self) {
  try {
    return self.look([](const DatasetIterator& iterator) {
      const std::int64_t count = iterator.stats().batches;
      return "DatasetIterator(epoch " + std::to_string(iterator.epoch()) + ", " + std::to_string(count) +
             (count == 1 ? " element read)" : " elements read)");
    });
  } catch (const std::exception&) {  // another thread is inside, or this is a forked child
    return "DatasetIterator()";
  }
}

}  // namespace

void bind_iterator(py::module_& module) {
  py::class_<DatasetIteratorHandle>(
      module, "DatasetIterator", collected<std::unique_ptr<DatasetIteratorHandle>>(),
      "One pass over a dataset, for one thread at a time and only in the process that made it. After an "
      "exception `next` raises it again; the position stays before the element that failed.")
      .def("__iter__", [](py::object self) { return self; })
      .def("__next__", next, "The next element.")
      .def("__repr__", repr)
      .def(
          "state_dict",
          [](DatasetIteratorHandle& self) {
            return state_to_python(
                self.call([](const DatasetIterator& iterator) { return iterator.save(); }));
          },
          "The position after the element last returned, as plain values that JSON can hold.")
      .def(
          "load_state_dict",
          [](DatasetIteratorHandle& self, const py::object& state_dict) {
            const State state = state_from_python(state_dict);
            self.call([&](DatasetIterator& iterator) { iterator.load(state); });
          },
          py::arg("state_dict"),
          "Goes to a saved position. ValueError for a state of another pipeline or of a newer version.")
      .def(
          "set_weights",
          [](DatasetIteratorHandle& self, std::vector<double> weights, std::optional<std::int64_t> element) {
            self.call([&](DatasetIterator& it) { it.set_weights(std::move(weights), element); });
          },
          py::arg("weights"), py::arg("element") = py::none(),
          "From `element` on (None: the next one), the datasets of a mixture have these weights.")
      .def(
          "exclude",
          [](DatasetIteratorHandle& self, std::vector<std::int64_t> rows) {
            self.call([&](DatasetIterator& it) { it.exclude(std::move(rows)); });
          },
          py::arg("rows"), "From the next element on, leaves out these rows of the sources.")
      .def(
          "state_at",
          [](DatasetIteratorHandle& self, std::int64_t element) {
            return state_to_python(
                self.call([&](const DatasetIterator& iterator) { return iterator.state_at(element); }));
          },
          py::arg("element"),
          "The position that `state_dict` has after the first `element` elements of this epoch, where the "
          "pipeline has random access.")
      .def(
          "remote_elements_left",
          [](DatasetIteratorHandle& self) {
            return self.call([](const DatasetIterator& it) { return it.remote_elements_left(); });
          },
          "Elements that are left, where they are read over a network and by position, and end; else None.")
      .def(
          "begin_reading",
          [](DatasetIteratorHandle& self) { self.call([](DatasetIterator& it) { it.begin_reading(); }); },
          "Begins to read what comes over a network, before the first element is asked for. Does not wait.")
      .def(
          "stats",
          [](DatasetIteratorHandle& self) {
            return stats_to_python(
                self.look([](const DatasetIterator& iterator) { return iterator.stats(); }));
          },
          "Counts since the iterator was made. Any thread may ask; RuntimeError while another one is inside.")
      .def_property_readonly(
          "epoch",
          [](DatasetIteratorHandle& self) {
            return self.call([](const DatasetIterator& it) { return it.epoch(); });
          },
          "The epoch that this iterator reads.")
      .def("close", &DatasetIteratorHandle::close,
           "Stops reading ahead and waits for callables that are running; `next` then raises.");
}

}  // namespace torch_distinput
