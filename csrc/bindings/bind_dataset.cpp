// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/convert.h"
#include "bindings/executor_function.h"
#include "bindings/function.h"
#include "bindings/function_pool.h"
#include "bindings/interpreter/gil.h"
#include "bindings/iterator_handle.h"
#include "bindings/module.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/preprocessing.h"
#include "torch_distinput/random.h"

namespace torch_distinput {
namespace {

using Holder = PipelineHandle<Dataset>;
using Class = py::class_<Dataset, Holder>;
using OptionalInt = std::optional<std::int64_t>;

Lists lists(bool are_structure) { return are_structure ? Lists::kStructure : Lists::kLeaf; }

std::optional<ElementSpec> optional_spec(const py::object& spec, const std::string& where) {
  if (spec.is_none()) return std::nullopt;
  return spec_from_python(spec, where);
}

ImageLayout image_layout(const std::string& name) {
  TORCH_CHECK_VALUE(name == "NCHW" || name == "NHWC",
                    "normalize_images: `layout` must be \"NCHW\" or \"NHWC\", but is \"", name, "\".");
  return name == "NCHW" ? ImageLayout::kNchw : ImageLayout::kNhwc;
}

// The next two hold the GIL, so that no Python thread moves the tensors to other memory before they are
// guarded.
Dataset from_tensors(const py::object& value) {
  return Dataset::from_tensors(ElementReader("from_tensors", Lists::kLeaf, Objects::kRefuse).read(value));
}

Dataset from_tensor_slices(const py::object& value) {
  return Dataset::from_tensor_slices(
      ElementReader("from_tensor_slices", Lists::kLeaf, Objects::kRefuse).read(value));
}

Dataset from_generator(py::object open, const py::object& element_spec, std::string name,
                       bool lists_are_structure) {
  auto spec = optional_spec(element_spec, "from_generator");
  auto source = make_python_generator(std::move(open), lists(lists_are_structure), spec, std::move(name));
  return without_gil([&] { return Dataset::from_generator(std::move(source), std::move(spec)); });
}

Dataset from_rows(py::object rows, std::int64_t size, std::string name) {
  auto source = make_python_rows(std::move(rows), size, std::move(name));
  return without_gil([&] { return Dataset::from_rows(std::move(source)); });
}

Dataset zip(const py::object& structure) {
  // As in tf.data, a list is a leaf here and not structure.
  Flat flat = flatten(structure, Lists::kLeaf, "zip");
  std::vector<Dataset> datasets;
  for (PyObject* const leaf : flat.leaves) {
    TORCH_CHECK_TYPE(py::isinstance<Dataset>(leaf),
                     "zip: `structure` must be datasets in tuples and dicts, but holds a ",
                     Py_TYPE(leaf)->tp_name, ".");
    datasets.push_back(py::handle(leaf).cast<Dataset>());
  }
  return without_gil([&] { return Dataset::zip(std::move(flat.structure), std::move(datasets)); });
}

Dataset map(const Dataset& self, py::object function, OptionalInt num_parallel_calls, bool deterministic,
            const py::object& element_spec, bool row_wise, const py::object& processes) {
  MapOptions options{.num_parallel_calls = num_parallel_calls,
                     .deterministic = deterministic,
                     .element_spec = optional_spec(element_spec, "map"),
                     .row_wise = row_wise};
  FunctionPtr native;
  if (!processes.is_none()) {
    native = make_process_function(std::move(function), options.element_spec, processes);
  } else if (py::isinstance<preprocessing::Layer>(function)) {
    native = function.cast<std::shared_ptr<preprocessing::Layer>>();
  } else {
    native = make_python_function(std::move(function), "map", options.element_spec);
  }
  return without_gil([&] { return self.map(std::move(native), std::move(options)); });
}

Dataset filter(const Dataset& self, py::object predicate) {
  auto native = make_python_function(std::move(predicate), "filter");
  return without_gil([&] { return self.filter(std::move(native)); });
}

Dataset flat_map(const Dataset& self, py::object function) {
  auto native = make_python_function(std::move(function), "flat_map");
  return without_gil([&] { return self.flat_map(std::move(native)); });
}

Dataset interleave(const Dataset& self, py::object function, OptionalInt cycle_length,
                   std::int64_t block_length, OptionalInt num_parallel_calls, bool deterministic) {
  const InterleaveOptions options{.cycle_length = cycle_length,
                                  .block_length = block_length,
                                  .num_parallel_calls = num_parallel_calls,
                                  .deterministic = deterministic};
  auto native = make_python_function(std::move(function), "interleave");
  return without_gil([&] { return self.interleave(std::move(native), options); });
}

std::vector<Dataset> datasets_of(const py::list& list) {
  std::vector<Dataset> datasets;
  for (const auto dataset : list) datasets.push_back(dataset.cast<Dataset>());
  return datasets;
}

StopOn stop_on_named(const std::string& name) {
  TORCH_CHECK_VALUE(name == "all" || name == "first",
                    "sample_from_datasets: `stop_on` must be \"all\" or \"first\", but is \"", name, "\".");
  return name == "all" ? StopOn::kAll : StopOn::kFirst;
}

SharesOf shares_named(const std::string& name) {
  TORCH_CHECK_VALUE(name == "elements" || name == "tokens",
                    "sample_from_datasets: `by` must be \"elements\" or \"tokens\", but is \"", name, "\".");
  return name == "elements" ? SharesOf::kElements : SharesOf::kTokens;
}

using WeightsByStep = std::vector<std::pair<std::int64_t, std::vector<double>>>;

Dataset sample_from_datasets(const py::list& datasets, std::vector<double> weights,
                             const WeightsByStep& schedule, OptionalInt elements_per_step, OptionalInt seed,
                             const std::string& stop_on, const std::string& by,
                             std::optional<std::string> key) {
  auto inputs = datasets_of(datasets);
  SampleOptions options{.weights = std::move(weights),
                        .elements_per_step = elements_per_step,
                        .by = shares_named(by),
                        .key = std::move(key),
                        .seed = seed,
                        .stop_on = stop_on_named(stop_on)};
  for (const auto& [step, from_there] : schedule) options.schedule.push_back({step, from_there});
  return without_gil([&] { return Dataset::sample_from_datasets(std::move(inputs), std::move(options)); });
}

Dataset choose_from_datasets(const py::list& datasets, const Dataset& choice) {
  auto inputs = datasets_of(datasets);
  return without_gil([&] { return Dataset::choose_from_datasets(std::move(inputs), choice); });
}

/// `shapes` is a structure of specs, of which only the shapes are read; None: not given.
std::optional<PaddedShapes> padded_shapes(const py::object& shapes, const std::string& op) {
  if (shapes.is_none()) return std::nullopt;
  const ElementSpec spec = spec_from_python(shapes, op);
  PaddedShapes result{spec.structure, {}};
  for (const LeafSpec& leaf : spec.leaves) result.leaves.push_back(std::get<TensorSpec>(leaf).shape);
  return result;
}

std::optional<Element> padding_values(const py::object& values, const std::string& op) {
  if (values.is_none()) return std::nullopt;
  return ElementReader(op + "(padding_values)", Lists::kStructure, Objects::kRefuse).read(values);
}

Dataset padded_batch(const Dataset& self, std::int64_t batch_size, const py::object& shapes,
                     const py::object& values, bool drop_remainder) {
  PaddedBatchOptions options{.padded_shapes = padded_shapes(shapes, "padded_batch"),
                             .padding_values = padding_values(values, "padded_batch"),
                             .drop_remainder = drop_remainder};
  return without_gil([&] { return self.padded_batch(batch_size, std::move(options)); });
}

Dataset bucket_by_length(const Dataset& self, py::object length, std::vector<std::int64_t> boundaries,
                         std::vector<std::int64_t> batch_sizes, const py::object& shapes,
                         const py::object& values, bool pad_to_bucket_boundary, bool drop_remainder,
                         bool no_padding) {
  BucketOptions options{.bucket_boundaries = std::move(boundaries),
                        .bucket_batch_sizes = std::move(batch_sizes),
                        .padded_shapes = padded_shapes(shapes, "bucket_by_length"),
                        .padding_values = padding_values(values, "bucket_by_length"),
                        .pad_to_bucket_boundary = pad_to_bucket_boundary,
                        .drop_remainder = drop_remainder,
                        .no_padding = no_padding};
  auto native = make_python_function(std::move(length), "bucket_by_length");
  return without_gil([&] { return self.bucket_by_length(std::move(native), std::move(options)); });
}

Dataset batch_by_cost(const Dataset& self, const py::object& cost, double budget, std::int64_t window,
                      const py::object& shapes, const py::object& values) {
  RowCost native = row_cost_from_python(cost, "batch_by_cost");
  CostBatchOptions options{.window = window,
                           .padded_shapes = padded_shapes(shapes, "batch_by_cost"),
                           .padding_values = padding_values(values, "batch_by_cost")};
  return without_gil([&] { return self.batch_by_cost(std::move(native), budget, std::move(options)); });
}

/// The calls that made the dataset, as in the program: `range(0, 6).batch(batch_size=2)`.
std::string chain(const Node& node) {
  const auto inputs = node.inputs();
  if (inputs.empty()) return node.describe();
  if (inputs.size() == 1) return chain(*inputs.front()) + "." + node.describe();
  std::string text = node.describe();
  const char* separator = "[";
  for (const auto& input : inputs) text += std::exchange(separator, ", ") + chain(*input);
  return text + "]";
}

void bind_op_info(py::module_& module) {
  py::class_<OpInfo>(module, "OpInfo", "One op of a pipeline, and how it would run.")
      .def_readonly("call", &OpInfo::call, "The op with its arguments.")
      .def_readonly("num_inputs", &OpInfo::num_inputs, "Ops that it reads; 0 for a source.")
      .def_readonly("cardinality", &OpInfo::cardinality,
                    "Elements an epoch, or -1 for infinite, or -2 for unknown.")
      .def_readonly("path", &OpInfo::path, "`plan`; `stream: ` and why; or `fails: ` and the error.")
      .def_readonly("facts", &OpInfo::facts, "What else it knows before it is read; empty if nothing.")
      .def_readonly("runs_user_code", &OpInfo::runs_user_code,
                    "Whether it calls code that may block or need Python's lock.")
      .def_readonly("threads", &OpInfo::threads, "The threads that do its work, at most.")
      .def_property_readonly(
          "spec",
          [](const OpInfo& self) -> py::object {
            return self.spec ? spec_to_python(*self.spec) : py::none();
          },
          "The type of its elements; None where it cannot be known.");
}

void bind_sources(Class& dataset) {
  dataset
      .def_static("range", py::overload_cast<std::int64_t, std::int64_t, std::int64_t>(&Dataset::range),
                  py::arg("start"), py::arg("stop"), py::arg("step") = 1, WithoutGil(),
                  "The int64 scalars `start`, `start + step`, ... before `stop`.")
      .def_static("from_tensors", from_tensors, py::arg("value"), "One element: `value`.")
      .def_static("from_tensor_slices", from_tensor_slices, py::arg("value"),
                  "One element for each index along dim 0 of the leaves of `value`.")
      .def_static("from_generator", from_generator, py::arg("open"), py::arg("element_spec"), py::arg("name"),
                  py::arg("lists_are_structure"),
                  "The elements of the iterable that `open()` returns; it is called anew for each iterator. "
                  "`name` is for messages. `lists_are_structure`: whether a list in an element is a part of "
                  "its structure, or stands for one tensor.")
      .def_static(
          "from_rows", from_rows, py::arg("rows"), py::arg("size"), py::arg("name"),
          "Random access: `rows(positions)` returns the elements at a list of positions below `size`, and "
          "`rows.content()` what tells them from others of the same name and size.")
      .def_static("zip", zip, py::arg("structure"),
                  "Elements of several datasets side by side, in a structure that holds the datasets.")
      .def_static("sample_from_datasets", sample_from_datasets, py::arg("datasets"), py::arg("weights"),
                  py::arg("schedule"), py::arg("elements_per_step"), py::arg("seed"), py::arg("stop_on"),
                  py::arg("by"), py::arg("key"), "Each element comes from a dataset drawn at random.")
      .def_static("choose_from_datasets", choose_from_datasets, py::arg("datasets"), py::arg("choice"),
                  "Each element comes from the dataset whose index `choice` yields.");
}

void bind_ops(Class& dataset) {
  dataset
      .def(
          "batch",
          [](const Dataset& self, std::int64_t batch_size, bool drop_remainder) {
            return self.batch(batch_size, {.drop_remainder = drop_remainder});
          },
          py::arg("batch_size"), py::arg("drop_remainder") = false, WithoutGil(),
          "Consecutive elements stacked along a new dim 0.")
      .def(
          "batch_by_schedule",
          [](const Dataset& self, const std::vector<std::pair<std::int64_t, std::int64_t>>& schedule,
             bool drop_remainder) {
            std::vector<BatchSizeFrom> sizes;
            for (const auto& [step, size] : schedule) sizes.push_back({step, size});
            return self.batch(std::move(sizes), {.drop_remainder = drop_remainder});
          },
          py::arg("schedule"), py::arg("drop_remainder") = false, WithoutGil(),
          "As `batch`, from batch number `step` on with `size` rows, for pairs `(step, size)`.")
      .def(
          "ragged_batch",
          [](const Dataset& self, std::int64_t batch_size, bool drop_remainder) {
            return self.ragged_batch(batch_size, {.drop_remainder = drop_remainder});
          },
          WithoutGil(), py::arg("batch_size"), py::arg("drop_remainder") = false,
          "As `batch`, with rows of varying length.")
      .def("unbatch", &Dataset::unbatch, WithoutGil(), "The rows along dim 0 as elements.")
      .def(
          "rebatch",
          [](const Dataset& self, std::vector<std::int64_t> batch_sizes, bool drop_remainder) {
            return self.rebatch(std::move(batch_sizes), {.drop_remainder = drop_remainder});
          },
          py::arg("batch_sizes"), py::arg("drop_remainder") = false, WithoutGil(),
          "Rows regrouped into batches of the given sizes, taken in turn.")
      .def(
          "shuffle",
          [](const Dataset& self, OptionalInt buffer_size, OptionalInt seed, bool reshuffle_each_iteration,
             OptionalInt blocks) {
            return self.shuffle({.buffer_size = buffer_size,
                                 .seed = seed,
                                 .reshuffle_each_iteration = reshuffle_each_iteration,
                                 .blocks = blocks});
          },
          py::arg("buffer_size") = py::none(), py::arg("seed") = py::none(),
          py::arg("reshuffle_each_iteration") = true, py::arg("blocks") = py::none(), WithoutGil(),
          "Elements in random order; `buffer_size` limits how far an element moves, None does not. With "
          "`blocks`, "
          "the rows of a block stay close to one another.")
      .def("repeat", &Dataset::repeat, py::arg("count") = py::none(), WithoutGil(),
           "The dataset `count` times; None or -1: without end.")
      .def("take", &Dataset::take, py::arg("count"), WithoutGil(), "The first `count` elements; -1: all.")
      .def("skip", &Dataset::skip, py::arg("count"), WithoutGil(), "All but the first `count` elements.")
      .def("shard", &Dataset::shard, py::arg("num_shards"), py::arg("index"), WithoutGil(),
           "Every `num_shards`-th element, beginning with element `index`.")
      .def("select", &Dataset::select, py::arg("indices"), WithoutGil(),
           "The elements at `indices`, an int64 tensor with one dim in which an index may occur several "
           "times.")
      .def(
          "sample",
          [](const Dataset& self, const at::Tensor& weights, std::int64_t num_samples, bool replacement,
             OptionalInt seed) {
            return self.sample(weights, num_samples, {.replacement = replacement, .seed = seed});
          },
          py::arg("weights"), py::arg("num_samples"), py::arg("replacement") = true,
          py::arg("seed") = py::none(), WithoutGil(),
          "`num_samples` elements, each drawn at random by its weight.")
      .def("enumerate", &Dataset::enumerate, py::arg("start") = 0, WithoutGil(),
           "Pairs of a number, counted from `start`, and an element.")
      .def("concatenate", &Dataset::concatenate, py::arg("other"), WithoutGil(),
           "The elements of this dataset, then those of `other`.")
      .def(
          "cache", [](const Dataset& self, bool shared) { return self.cache({.shared = shared}); },
          WithoutGil(), py::arg("shared"), "Keeps the elements in memory after they were read once.")
      .def("prefetch", &Dataset::prefetch, py::arg("buffer_size"), WithoutGil(),
           "Reads up to `buffer_size` elements ahead; -1: chosen by the library.")
      .def("map", map, py::arg("function"), py::arg("num_parallel_calls") = py::none(),
           py::arg("deterministic") = true, py::arg("element_spec") = py::none(), py::arg("row_wise") = false,
           py::arg("processes") = py::none(),
           "`function` applied to each element; a tuple's parts are its arguments.")
      .def("filter", filter, py::arg("predicate"), "The elements for which `predicate` returns a true bool.")
      .def("flat_map", flat_map, py::arg("function"),
           "The elements of the datasets that `function` returns, one dataset after the other.")
      .def("interleave", interleave, py::arg("function"), py::arg("cycle_length") = py::none(),
           py::arg("block_length") = 1, py::arg("num_parallel_calls") = py::none(),
           py::arg("deterministic") = true,
           "The elements of the datasets that `function` returns, which take turns.")
      .def("window", &Dataset::window, py::arg("size"), WithoutGil(),
           "Elements whose leaves are datasets of `size` consecutive values.")
      .def("padded_batch", padded_batch, py::arg("batch_size"), py::arg("padded_shapes") = py::none(),
           py::arg("padding_values") = py::none(), py::arg("drop_remainder") = false,
           "A batch whose rows are padded to one shape; `padded_shapes` is a structure of specs.")
      .def("bucket_by_length", bucket_by_length, py::arg("length"), py::arg("bucket_boundaries"),
           py::arg("bucket_batch_sizes"), py::arg("padded_shapes") = py::none(),
           py::arg("padding_values") = py::none(), py::arg("pad_to_bucket_boundary") = false,
           py::arg("drop_remainder") = false, py::arg("no_padding") = false,
           "Batches of elements of similar length.")
      .def("batch_by_cost", batch_by_cost, py::arg("cost"), py::arg("budget"), py::arg("window"),
           py::arg("padded_shapes") = py::none(), py::arg("padding_values") = py::none(),
           "Batches whose costs add up to at most `budget`; `cost` is a tensor, a key or a function.")
      .def("unique", &Dataset::unique, WithoutGil(), "Each distinct element once, at its first place.")
      .def("assert_cardinality", &Dataset::assert_cardinality, py::arg("cardinality"), WithoutGil(),
           "Declares the number of elements; reading raises FailedPreconditionError where it is wrong.")
      .def(
          "normalize_images",
          [](const Dataset& self, std::vector<double> mean, std::vector<double> std, c10::ScalarType dtype,
             const std::string& layout) {
            return self.normalize_images(std::move(mean), std::move(std), {dtype, image_layout(layout)});
          },
          py::arg("mean"), py::arg("std"), py::arg("dtype"), py::arg("layout"), WithoutGil(),
          "uint8 images as numbers, (byte / 255 - mean) / std for each channel.")
      .def("with_functions_elsewhere", with_functions_elsewhere, py::arg("calls"),
           "The dataset with functions that workers of an executor run: `calls(function, in_blocks)` returns "
           "what asks for the results of a function, or None where this process calls it.")
      .def("with_options", &Dataset::with_options, py::arg("options"), WithoutGil(),
           "The dataset with options; later ones win field by field.");
}

void bind_questions(Class& dataset) {
  dataset
      .def(
          "batch_size", [](const Dataset& self) { return self.node()->batch_size(); }, WithoutGil(),
          "Rows of each element, except a short last one, where a batching op sets their number; else None.")
      .def("cardinality", &Dataset::cardinality, WithoutGil(),
           "The number of elements, or -1 for infinite, or -2 for unknown.")
      .def_property_readonly(
          "element_spec",
          [](const Dataset& self) {
            return spec_to_python(without_gil([&] { return self.element_spec(); }));
          },
          "The type of the elements: their structure with a spec at each leaf.")
      .def("options", &Dataset::options, WithoutGil(), "The options set on the pipeline.")
      .def_property_readonly("unseeded", &Dataset::unseeded, "Whether a random op has no seed of its own.")
      .def("ops", &Dataset::ops, WithoutGil(), "All ops, the inputs of an op before it.")
      .def("network_facts", &Dataset::network_facts, WithoutGil(),
           "Lines about what an epoch reads over networks; reads no rows.")
      .def("lacks_index", &Dataset::lacks_index, WithoutGil(),
           "Whether its rows can be counted only after all bytes of objects were read for an index.")
      .def(
          "__repr__", [](const Dataset& self) { return chain(*self.node()); }, WithoutGil())
      .def(
          "ledger",
          [](const Dataset& self, std::int64_t epoch, std::optional<std::uint64_t> seed,
             const py::object& position) {
            const LedgerEpoch of{epoch, seed, state_from_python(position)};
            return without_gil([&] { return self.ledger(of); });
          },
          py::arg("epoch"), py::arg("seed") = py::none(), py::arg("position") = py::none(),
          "Which rows are in each element of an epoch. `seed`: the base seed; None: the dataset's own. "
          "`position`: a saved one of the same dataset, for what was changed while it was read.")
      .def("set_epoch", &Dataset::set_epoch, py::arg("epoch"), WithoutGil(),
           "Sets the epoch of the next iterator.")
      .def(
          "iterate",
          [](const Dataset& self, OptionalInt epoch, std::optional<std::uint64_t> seed, bool stream_only,
             bool pin_memory) {
            const IterateOptions options{
                .epoch = epoch, .seed = seed, .stream_only = stream_only, .pin_memory = pin_memory};
            auto iterator = without_gil([&] { return self.iterate(options); });
            return std::make_unique<IteratorHandle<DatasetIterator>>("DatasetIterator", std::move(iterator),
                                                                     CodeReferences(pipelines_of(self)));
          },
          py::arg("epoch") = py::none(), py::arg("seed") = py::none(), py::arg("stream_only") = false,
          py::arg("pin_memory") = false,
          "A new iterator. Where they are None, `epoch` and `seed` are the dataset's own; `stream_only` "
          "reads element by element even where random access is possible; `pin_memory` gathers batches into "
          "page-locked memory.");
}

}  // namespace

void bind_dataset(py::module_& module) {
  module.attr("INFINITE") = kInfiniteCardinality;
  module.attr("UNKNOWN") = kUnknownCardinality;
  module.attr("SHARD_HINT") = kShardHint;
  bind_op_info(module);
  Class dataset(module, "Dataset", collected<Holder>(),
                "An immutable description of a sequence of elements.");
  bind_sources(dataset);
  bind_ops(dataset);
  bind_questions(dataset);
  module.def(
      "random", random,
      "The `torch.Generator` of the row that a callable of a pipeline runs for: the functions of `map`, "
      "`filter`, `flat_map`, `interleave` and `bucket_by_length`.\n\n"
      "It is seeded by the pipeline's seed, the epoch, the op and the row's number, so the same row draws "
      "the same numbers on any thread, at any number of threads and processes, and after a restore. After "
      "`batch` a row is a whole batch. Calls for one row return the same generator, so its draws continue. "
      "Outside of these functions it raises FailedPreconditionError.");
}

}  // namespace torch_distinput
