// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>

#include <c10/util/Exception.h>
#include <pybind11/native_enum.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/typing.h>

#include "bindings/argument.h"
#include "bindings/module.h"
#include "torch_distinput/options.h"

namespace torch_distinput {
namespace py = pybind11;
namespace {

#ifdef PYBIND11_TYPING_H_HAS_STRING_LITERAL
using OnErrorWord = py::typing::Literal<"\"raise\"", "\"skip\"">;
#else  // clang before 18
using OnErrorWord = py::str;
#endif
/// Any object, with the type that the stub shows.
using OnError = py::typing::Optional<py::typing::Union<Skip, OnErrorWord>>;

std::optional<Skip> skip_from_python(const py::object& on_error) {
  if (py::isinstance<Skip>(on_error)) return on_error.cast<Skip>();
  const auto is = [&](const char* word) {
    return PyUnicode_Check(on_error.ptr()) && PyUnicode_CompareWithASCIIString(on_error.ptr(), word) == 0;
  };
  if (is("skip")) return Skip{};
  TORCH_CHECK_VALUE(on_error.is_none() || is("raise"),
                    "Options: `on_error` must be \"raise\", \"skip\" or a Skip, but is ",
                    std::string(py::repr(on_error)), ".");
  return std::nullopt;
}

py::object skip_to_python(const std::optional<Skip>& skip) {
  if (!skip) return py::none();
  return *skip == Skip{} ? py::object(py::str("skip")) : py::cast(*skip);
}

void bind_policy(py::module_& module) {
  py::native_enum<AutoShardPolicy>(
      module, "AutoShardPolicy", "enum.IntEnum",
      "How elements are assigned over ranks; values as in tf.data, which has no STREAMS.")
      .value("OFF", AutoShardPolicy::kOff, "Every rank reads everything.")
      .value("AUTO", AutoShardPolicy::kAuto,
             "FILE where the pipeline reads files, and enough of them; else DATA.")
      .value("FILE", AutoShardPolicy::kFile, "Each rank reads files of its own.")
      .value("DATA", AutoShardPolicy::kData, "All ranks read one stream; each takes its parts of each batch.")
      .value("HINT", AutoShardPolicy::kHint,
             "Each rank reads its shard, cut where `shard(SHARD_HINT, 0)` stands.")
      .value("STREAMS", AutoShardPolicy::kStreams,
             "A pipeline without random access is cut into streams, whose number does not depend on that of "
             "the ranks; each is read by one rank. Where that is not possible, DATA.")
      .finalize();
}

void bind_skip(py::module_& module) {
  py::class_<Skip>(module, "Skip", "Skip rows that fail instead of raising, up to a limit (None: no limit).")
      .def(py::init([](const Argument<std::int64_t>& max_count, const Argument<double>& max_fraction) {
             const Skip skip{max_count.get("Skip", "max_count"), max_fraction.get("Skip", "max_fraction")};
             Options{.skip = skip}.validate();
             return skip;
           }),
           py::arg("max_count") = py::none(), py::arg("max_fraction") = py::none())
      .def_readonly("max_count", &Skip::max_count, "Rows that may be skipped in one epoch.")
      .def_readonly("max_fraction", &Skip::max_fraction,
                    "The largest allowed share of skipped rows among those seen. Checked from 100 rows on, "
                    "and at the end of the data however few there are; inside of the datasets that the "
                    "functions of `flat_map` and `interleave` make, only from 100 rows on.")
      .def(
          "__eq__", [](const Skip& self, const Skip& other) { return self == other; }, py::is_operator(),
          py::arg("other"))
      .def("__hash__",
           [](const Skip& self) { return py::hash(py::make_tuple(self.max_count, self.max_fraction)); })
      .def("__repr__", [](const Skip& self) {
        return py::str("Skip(max_count={}, max_fraction={})").format(self.max_count, self.max_fraction);
      });
}

Options make_options(const Argument<AutoShardPolicy>& auto_shard_policy, const Argument<bool>& deterministic,
                     const Argument<std::int64_t>& num_threads, const Argument<std::int64_t>& prefetch,
                     const Argument<std::int64_t>& prefetch_bytes, const OnError& on_error,
                     const Argument<std::int64_t>& seed) {
  constexpr const char* kBindOptionsName = "Options";
  Options options{.auto_shard_policy = auto_shard_policy.get(kBindOptionsName, "auto_shard_policy"),
                  .deterministic = deterministic.get(kBindOptionsName, "deterministic"),
                  .num_threads = num_threads.get(kBindOptionsName, "num_threads"),
                  .prefetch = prefetch.get(kBindOptionsName, "prefetch"),
                  .prefetch_bytes = prefetch_bytes.get(kBindOptionsName, "prefetch_bytes"),
                  .skip = skip_from_python(on_error),
                  .seed = seed.get(kBindOptionsName, "seed")};
  options.validate();
  return options;
}

}  // namespace

void bind_options(py::module_& module) {
  bind_policy(module);
  bind_skip(module);
  py::class_<Options>(
      module, "Options",
      "Options of a pipeline. A field that is None is not set and takes its default when an iterator "
      "is made; of several `with_options` the later one wins field by field.")
      .def(py::init(&make_options), py::arg("auto_shard_policy") = py::none(),
           py::arg("deterministic") = py::none(), py::arg("num_threads") = py::none(),
           py::arg("prefetch") = py::none(), py::arg("prefetch_bytes") = py::none(),
           py::arg("on_error") = py::none(), py::arg("seed") = py::none())
      .def_readonly("auto_shard_policy", &Options::auto_shard_policy,
                    "How elements are assigned over ranks; default AUTO.")
      .def_readonly("deterministic", &Options::deterministic,
                    "Whether parallel results keep their order; default True.")
      .def_readonly("num_threads", &Options::num_threads,
                    "Threads for native work; 0: none. Default: the CPUs that this process may use.")
      .def_readonly("prefetch", &Options::prefetch,
                    "Elements read ahead; default: chosen by their size and cost.")
      .def_readonly("prefetch_bytes", &Options::prefetch_bytes, "Bytes read ahead; default 64 MiB.")
      .def_property_readonly(
          "on_error", [](const Options& self) { return skip_to_python(self.skip); },
          "\"skip\" or a Skip: rows that fail are skipped. None: they raise.")
      .def_readonly("seed", &Options::seed,
                    "Seed of random ops without one of their own; default: drawn once.")
      .def(
          "__eq__", [](const Options& self, const Options& other) { return self == other; },
          py::is_operator(), py::arg("other"))
      .def("__hash__", [](const Options& self) { return py::hash(py::str(self.str())); })
      .def("__repr__", &Options::str);
}

}  // namespace torch_distinput
