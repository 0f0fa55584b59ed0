// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/convert.h"
#include "bindings/function.h"
#include "bindings/interpreter/gil.h"
#include "bindings/module.h"
#include "torch_distinput/arrays.h"
#include "torch_distinput/tokens.h"

namespace torch_distinput {
namespace {

using OptionalCount = std::optional<std::int64_t>;

FileNames names_of(const py::object& files) {
  if (py::isinstance<Dataset>(files)) return files.cast<const Dataset&>();
  return files.cast<std::vector<std::string>>();
}

Dataset numpy_files(const py::object& files) {
  FileNames names = names_of(files);
  return without_gil([&] { return NumpyDataset(std::move(names)); });
}

Dataset safetensors_files(const py::object& files) {
  FileNames names = names_of(files);
  return without_gil([&] { return SafetensorsDataset(std::move(names)); });
}

TokenOptions token_options(OptionalCount sequence_length, OptionalCount stride,
                           OptionalCount document_boundary, OptionalCount vocab_size,
                           at::ScalarType output_dtype) {
  return {.sequence_length = sequence_length,
          .stride = stride,
          .document_boundary = document_boundary,
          .vocab_size = vocab_size,
          .output_dtype = output_dtype};
}

Dataset token_files(const py::object& files, std::optional<at::ScalarType> dtype,
                    OptionalCount sequence_length, OptionalCount stride, OptionalCount document_boundary,
                    OptionalCount vocab_size, at::ScalarType output_dtype) {
  const TokenOptions options =
      token_options(sequence_length, stride, document_boundary, vocab_size, output_dtype);
  FileNames names = names_of(files);
  return without_gil([&] { return TokenDataset(std::move(names), dtype, options); });
}

at::Tensor dense_value(const py::object& value) {
  return ElementReader("TokenDataset", Lists::kLeaf, Objects::kRefuse).read(value).tensor();
}

// Holds the GIL, so that no Python thread moves the tensors to other memory before they are guarded.
Dataset token_column(const py::object& tokens, const py::object& offsets, OptionalCount sequence_length,
                     OptionalCount stride, OptionalCount document_boundary, OptionalCount vocab_size,
                     at::ScalarType output_dtype) {
  const TokenOptions options =
      token_options(sequence_length, stride, document_boundary, vocab_size, output_dtype);
  const Element column = ElementReader("TokenDataset", Lists::kLeaf, Objects::kRefuse).read(tokens);
  const Leaf* const leaf = column.leaves().size() == 1 ? &column.leaves().front() : nullptr;
  if (const auto* ragged = leaf != nullptr ? std::get_if<Ragged>(leaf) : nullptr)
    return TokenDataset(ragged->values, ragged->offsets, options);
  std::optional<at::Tensor> bounds;
  if (!offsets.is_none()) bounds = dense_value(offsets);
  return TokenDataset(column.tensor(), bounds, options);
}

Dataset with_lengths(const Dataset& elements, const std::optional<py::bytes>& path,
                     std::optional<std::string> key) {
  LengthOptions options{.key = std::move(key)};
  if (path) options.path = path->cast<std::string>();
  return without_gil([&] { return elements.with_lengths(std::move(options)); });
}

PackStrategy pack_strategy(const std::string& name) {
  TORCH_CHECK_VALUE(name == "greedy" || name == "best_fit",
                    "pack: `strategy` must be \"greedy\" or \"best_fit\", but is \"", name, "\".");
  return name == "greedy" ? PackStrategy::kGreedy : PackStrategy::kBestFit;
}

Dataset pack(const Dataset& documents, std::int64_t sequence_length, std::optional<std::string> key,
             const std::string& strategy, std::int64_t window, std::int64_t pad_id,
             OptionalCount max_documents, std::vector<std::string> keys, std::int64_t pad_to_multiple_of) {
  const PackOptions options{.key = std::move(key),
                            .strategy = pack_strategy(strategy),
                            .window = window,
                            .pad_id = pad_id,
                            .max_documents = max_documents,
                            .keys = std::move(keys),
                            .pad_to_multiple_of = pad_to_multiple_of};
  return without_gil([&] { return documents.pack(sequence_length, options); });
}

/// A list of ints as a tensor of int64: a tokenizer's list has an object for each token, which numpy reads a
/// third as fast.
at::Tensor token_row(const py::list& row) {
  at::Tensor tokens = at::empty({static_cast<std::int64_t>(row.size())}, at::kLong);
  auto* const data = tokens.mutable_data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < row.size(); ++i) {
    PyObject* const token = PyList_GET_ITEM(row.ptr(), static_cast<Py_ssize_t>(i));
    TORCH_CHECK_TYPE(PyLong_Check(token),
                     "tokenize: the tokenizer must return numbers of tokens, but returned a ",
                     Py_TYPE(token)->tp_name, ".");
    data[i] = PyLong_AsLongLong(token);
    if (data[i] == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  }
  return tokens;
}

Dataset map_blocks(const Dataset& self, py::object function, OptionalCount num_parallel_calls,
                   std::int64_t block) {
  FunctionPtr native = make_python_block_function(std::move(function), "map");
  const MapOptions options{.num_parallel_calls = num_parallel_calls, .block = block};
  return without_gil([&] { return self.map(std::move(native), options); });
}

}  // namespace

void bind_tokens(py::module_& module) {
  module.def("numpy_files", numpy_files, py::arg("files"), "The rows of arrays in .npy and .npz files.");
  module.def("safetensors_files", safetensors_files, py::arg("files"),
             "The rows of tensors in .safetensors files.");
  module.def("token_files", token_files, py::arg("files"), py::arg("dtype"), py::arg("sequence_length"),
             py::arg("stride"), py::arg("document_boundary"), py::arg("vocab_size"), py::arg("output_dtype"),
             "Sequences of tokens in files; `document_boundary` -1 means those of the files' indexes.");
  module.def("token_column", token_column, py::arg("tokens"), py::arg("offsets"), py::arg("sequence_length"),
             py::arg("stride"), py::arg("document_boundary"), py::arg("vocab_size"), py::arg("output_dtype"),
             "Sequences of tokens in memory.");
  module.def("with_lengths", with_lengths, py::arg("elements"), py::arg("path"), py::arg("key"),
             "The elements, with lengths that are stored.");
  module.def("pack", pack, py::arg("documents"), py::arg("sequence_length"), py::arg("key"),
             py::arg("strategy"), py::arg("window"), py::arg("pad_id"), py::arg("max_documents"),
             py::arg("keys"), py::arg("pad_to_multiple_of"),
             "Documents of tokens joined to rows of `sequence_length` tokens.");
  module.def("token_row", token_row, py::arg("row"), "A list of ints as a tensor of int64.");
  module.def("map_blocks", map_blocks, py::arg("elements"), py::arg("function"),
             py::arg("num_parallel_calls"), py::arg("block"),
             "A map whose function gets lists of up to `block` elements.");
}

}  // namespace torch_distinput
