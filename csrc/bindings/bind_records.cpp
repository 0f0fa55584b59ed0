// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/convert.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "torch_distinput/archives.h"
#include "torch_distinput/dataset.h"
#include "torch_distinput/record_writer.h"
#include "torch_distinput/records.h"

namespace torch_distinput {
namespace {

using Key = std::optional<LeafKey>;

Dims record_dims(const py::object& shape, const char* op) {
  std::optional<Dims> dims = shape_from_python(shape, op);
  TORCH_CHECK_TYPE(dims, op, ": `shape` must be a sequence of sizes, but is None.");
  return *std::move(dims);
}

FeatureType feature_type(py::handle name) {
  const auto text = name.cast<std::string>();
  if (text == "float32") return FeatureType::kFloat;
  if (text == "int64") return FeatureType::kInt64;
  return text == "bytes" ? FeatureType::kBytes : FeatureType::kText;
}

/// The only leaf of a Python value, with memory of its own.
Leaf default_leaf(py::handle value) {
  Element element = ElementReader("FixedLenFeature", Lists::kLeaf, Objects::kRefuse).read(value);
  TORCH_CHECK_TYPE(element.leaves().size() == 1, "FixedLenFeature: `default_value` must be one leaf.");
  return std::move(element.leaves().front());
}

/// A feature from the tuple that torch_distinput/ops/_records.py makes of it.
Feature feature_from_python(const py::tuple& parts) {
  const auto kind = parts[0].cast<std::string>();
  const FeatureType type = feature_type(parts[1]);
  if (kind == "fixed") {
    FixedLenFeature fixed{record_dims(parts[2], "FixedLenFeature"), type, {}};
    if (!parts[3].is_none()) fixed.default_value = default_leaf(parts[3]);
    return fixed;
  }
  if (kind == "varlen") return VarLenFeature{type};
  if (kind == "ragged") return RaggedFeature{type};
  return SparseFeature{parts[2].cast<std::vector<std::string>>(), parts[3].cast<std::string>(), type,
                       parts[4].cast<Dims>(), parts[5].cast<bool>()};
}

Dataset parse_example(const Dataset& dataset, const std::vector<std::pair<std::string, py::tuple>>& features,
                      Key key) {
  Features read;
  for (const auto& [name, parts] : features) read.emplace_back(name, feature_from_python(parts));
  return without_gil([&] { return dataset.parse_example(std::move(read), std::move(key)); });
}

SequenceFeature sequence_feature_from_python(const py::tuple& parts) {
  const auto kind = parts[0].cast<std::string>();
  const FeatureType type = feature_type(parts[1]);
  if (kind == "varlen") return VarLenFeature{type};
  if (kind == "ragged") return RaggedFeature{type};
  return FixedLenSequenceFeature{record_dims(parts[2], "FixedLenSequenceFeature"), type,
                                 parts[3].cast<bool>()};
}

using NamedParts = std::vector<std::pair<std::string, py::tuple>>;

Dataset parse_sequence_example(const Dataset& dataset, const NamedParts& context, const NamedParts& sequences,
                               Key key) {
  Features features;
  SequenceFeatures lists;
  for (const auto& [name, parts] : context) features.emplace_back(name, feature_from_python(parts));
  for (const auto& [name, parts] : sequences) lists.emplace_back(name, sequence_feature_from_python(parts));
  return without_gil(
      [&] { return dataset.parse_sequence_example(std::move(features), std::move(lists), std::move(key)); });
}

Dataset parse_tensor(const Dataset& dataset, c10::ScalarType dtype, const py::object& shape, Key key) {
  std::optional<Dims> dims = shape_from_python(shape, "parse_tensor");
  return without_gil([&] { return dataset.parse_tensor(dtype, std::move(dims), std::move(key)); });
}

Dataset decode_raw(const Dataset& dataset, c10::ScalarType dtype, const py::object& shape, Key key) {
  Dims dims = record_dims(shape, "decode_raw");
  return without_gil([&] { return dataset.decode_raw(dtype, std::move(dims), std::move(key)); });
}

py::bytes example_of(const py::dict& values) {
  const Element element = ElementReader("example", Lists::kLeaf, Objects::kRefuse).read(values);
  return py::bytes(without_gil([&] { return example(element); }));
}

Dataset tar_members(const py::object& files, std::optional<std::string> compression_type,
                    std::optional<bool> index, std::optional<std::int64_t> max_record_bytes) {
  FileNames names = py::isinstance<Dataset>(files) ? FileNames(files.cast<const Dataset&>())
                                                   : FileNames(files.cast<std::vector<std::string>>());
  return without_gil(
      [&] { return TarDataset(std::move(names), {std::move(compression_type), index, max_record_bytes}); });
}

std::vector<py::bytes> expanded(const std::string& pattern) {
  std::vector<py::bytes> names;
  for (const std::string& name : expand_braces(pattern)) names.emplace_back(name);
  return names;
}

void bind_archives(py::module_& module) {
  module.def("tar_members", tar_members, py::arg("files"), py::arg("compression_type"), py::arg("index"),
             py::arg("max_record_bytes"),
             "The groups of members of tar archives; `files` as in `tf_records`.");
  module.def("expand_braces", expanded, py::arg("pattern"),
             "The names that a pattern with braces stands for.");
}

void bind_writer(py::module_& module) {
  module.def("example", example_of, py::arg("values"), "The serialized tf.train.Example of a dict.");
  py::class_<TFRecordWriter>(module, "TFRecordWriter", "Writes a TFRecord file.")
      .def(py::init<const std::string&, const std::optional<std::string>&>(), py::arg("path"),
           py::arg("compression"), WithoutGil())
      .def(
          "write",
          [](TFRecordWriter& self, const py::bytes& record) {
            const auto bytes = record.cast<std::string_view>();
            without_gil([&] { self.write(bytes); });
          },
          py::arg("record"), "Appends a record.")
      .def("close", &TFRecordWriter::close, WithoutGil(), "Writes what is buffered and closes the file.");
}

}  // namespace

void bind_records(py::module_& module) {
  module.def("decode_raw", decode_raw, py::arg("dataset"), py::arg("dtype"), py::arg("shape"), py::arg("key"),
             "The dataset with a leaf of strings as numbers of the machine's byte order.");
  module.def(
      "to_number",
      [](const Dataset& dataset, c10::ScalarType dtype, Key key) {
        return dataset.to_number(dtype, std::move(key));
      },
      py::arg("dataset"), py::arg("dtype"), py::arg("key"), WithoutGil(),
      "The dataset with a leaf of strings as the numbers that they spell out.");
  module.def("decode_members", &Dataset::decode_members, py::arg("dataset"), WithoutGil(),
             "The dataset with the members of its dicts decoded by suffix.");
  module.def("parse_example", parse_example, py::arg("dataset"), py::arg("features"), py::arg("key"),
             "The dataset with a leaf of tf.train.Example messages as a dict of features; each feature is a "
             "tuple of its kind, its type and its other arguments.");
  module.def("parse_sequence_example", parse_sequence_example, py::arg("dataset"),
             py::arg("context_features"), py::arg("sequence_features"), py::arg("key"),
             "The dataset with a leaf of tf.train.SequenceExample messages as a pair of dicts.");
  module.def("parse_tensor", parse_tensor, py::arg("dataset"), py::arg("dtype"), py::arg("shape"),
             py::arg("key"), "The dataset with a leaf of TensorProto messages as tensors.");
  bind_writer(module);
  bind_archives(module);
}

}  // namespace torch_distinput
