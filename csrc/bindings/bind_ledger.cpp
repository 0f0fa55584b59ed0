// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "bindings/collected.h"
#include "bindings/convert.h"
#include "bindings/handle.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "torch_distinput/node.h"
#include "torch_distinput/plan.h"
#include "torch_distinput/row_ledger.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

/// As SourceRow, of Python's types: names of files need not be UTF-8.
using LocatedRow = std::tuple<std::int64_t, std::optional<py::bytes>, std::int64_t>;

}  // namespace

void bind_ledger(py::module_& module) {
  using Holder = PipelineHandle<RowLedger>;
  py::class_<RowLedger, Holder>(module, "RowLedger", collected<Holder>(),
                                "Which rows of the sources are in each step of an epoch.")
      .def_property_readonly(
          "num_steps",
          [](const RowLedger& self) {
            const std::int64_t steps = self.num_steps();
            return steps == kEndless ? kInfiniteCardinality : steps;
          },
          "Steps of the epoch, or -1 for infinite.")
      .def(
          "rows",
          [](const RowLedger& self, std::int64_t step, std::int64_t replica) {
            return without_gil([&] { return self.rows(step, replica); });
          },
          py::arg("step"), py::arg("replica") = 0,
          "The rows that `replica`, numbered over all processes, gets in `step`, in order, with those that "
          "the tail repeats.")
      .def(
          "locate",
          [](const RowLedger& self, const std::vector<std::int64_t>& rows) {
            std::vector<SourceRow> places;
            without_gil([&] {
              for (const std::int64_t row : rows) places.push_back(self.locate(row));
            });
            std::vector<LocatedRow> located;
            for (const auto& [source, file, record] : places)
              located.emplace_back(source, file.empty() ? std::nullopt : std::optional<py::bytes>(file),
                                   record);
            return located;
          },
          py::arg("rows"),
          "For each row the number of its source, its file (bytes, or None without one) and its number "
          "there.")
      .def(
          "rebuild",
          [](const RowLedger& self, std::int64_t row, bool unbatched) {
            return element_to_python(without_gil([&] { return self.rebuild(row, unbatched); }));
          },
          py::arg("row"), py::arg("unbatched") = false,
          "The first element that has row `row`, or with `unbatched` that row of it, made as in the epoch.");
}

}  // namespace torch_distinput
