// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <utility>

#include <c10/util/Exception.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include "bindings/argument.h"
#include "bindings/convert.h"
#include "bindings/module.h"
#include "bindings/tree_spec.h"

namespace torch_distinput {
namespace {

std::int64_t dim_from_python(py::handle dim, const std::string& where) {
  if (dim.is_none()) return kUnknownDim;
  const auto index = py::reinterpret_steal<py::object>(PyNumber_Index(dim.ptr()));
  if (!index) PyErr_Clear();
  const auto size = index ? index.cast<std::int64_t>() : kUnknownDim;
  TORCH_CHECK_VALUE(size >= 0, where, ": entries of `shape` must be None or at least 0, but one is ",
                    std::string(py::repr(dim)), ".");
  return size;
}

struct SpecWriter {
  template <class Spec>
  py::object operator()(const Spec& spec) const {
    return py::cast(spec);
  }
};

LeafSpec ragged_spec_from_python(py::handle value, const std::string& where) {
  auto spec = value.cast<RaggedTensorSpec>();
  TORCH_CHECK_VALUE(spec.ragged_rank == 1, where,
                    ": `element_spec`: a leaf may have 1 ragged dim, but `ragged_rank` is ", spec.ragged_rank,
                    "; pad the others.");
  return spec;
}

LeafSpec leaf_spec_from_python(py::handle value, const std::string& where) {
  if (py::isinstance<TensorSpec>(value)) return value.cast<TensorSpec>();
  if (py::isinstance<RaggedTensorSpec>(value)) return ragged_spec_from_python(value, where);
  if (py::isinstance<SparseTensorSpec>(value)) return value.cast<SparseTensorSpec>();
  if (py::isinstance<StringSpec>(value)) return value.cast<StringSpec>();
  if (py::isinstance<DatasetSpec>(value)) return value.cast<DatasetSpec>();
  if (py::isinstance<OpaqueSpec>(value)) return value.cast<OpaqueSpec>();
  C10_THROW_ERROR(TypeError,
                  where + ": `element_spec` must be a structure of specs such as TensorSpec, but holds a " +
                      Py_TYPE(value.ptr())->tp_name + ".");
}

/// What all spec classes have. `fields` gives the arguments of the constructor.
template <class Spec, class Class, class Fields>
void define_value(Class& spec, Fields fields) {
  spec.def_property_readonly(
      "shape", [](const Spec& self) { return shape_to_python(self.shape); },
      "Sizes of the dimensions, None for an unknown one; None for an unknown number of dimensions.");
  spec.def("__repr__", [](const Spec& self) { return to_string(LeafSpec(self)); });
  spec.def(
      "__eq__", [](const Spec& self, const Spec& other) { return self == other; }, py::is_operator(),
      py::arg("other"));
  spec.def("__hash__", [fields](const Spec& self) { return py::hash(fields(self)); });
  spec.def("__reduce__",
           [fields](const Spec& self) { return py::make_tuple(py::type::of<Spec>(), fields(self)); });
}

constexpr const char* kDtypeDoc = "Dtype of the values.";

void bind_tensor_spec(py::module_& module) {
  py::class_<TensorSpec> spec(module, "TensorSpec", "The type of a dense tensor.");
  spec.def(py::init([](const py::object& shape, const Required<c10::ScalarType>& dtype) {
             return TensorSpec{shape_from_python(shape, "TensorSpec"), dtype.get("TensorSpec", "dtype"), {}};
           }),
           py::arg("shape"), py::arg("dtype") = c10::ScalarType::Float);
  spec.def_readonly("dtype", &TensorSpec::dtype, kDtypeDoc);
  define_value<TensorSpec>(
      spec, [](const TensorSpec& self) { return py::make_tuple(shape_to_python(self.shape), self.dtype); });
}

void bind_ragged_spec(py::module_& module) {
  py::class_<RaggedTensorSpec> spec(module, "RaggedTensorSpec", "The type of rows of varying length.");
  spec.def(py::init([](const py::object& shape, const Required<c10::ScalarType>& dtype,
                       const Required<std::int64_t>& ragged_rank) {
             constexpr const char* kBindSpecName = "RaggedTensorSpec";
             return RaggedTensorSpec{shape_from_python(shape, kBindSpecName),
                                     dtype.get(kBindSpecName, "dtype"),
                                     ragged_rank.get(kBindSpecName, "ragged_rank"),
                                     {}};
           }),
           py::arg("shape"), py::arg("dtype") = c10::ScalarType::Float, py::arg("ragged_rank") = 1);
  spec.def_readonly("dtype", &RaggedTensorSpec::dtype, kDtypeDoc);
  spec.def_readonly("ragged_rank", &RaggedTensorSpec::ragged_rank, "Number of ragged dimensions.");
  define_value<RaggedTensorSpec>(spec, [](const RaggedTensorSpec& self) {
    return py::make_tuple(shape_to_python(self.shape), self.dtype, self.ragged_rank);
  });
}

void bind_sparse_spec(py::module_& module) {
  py::class_<SparseTensorSpec> spec(module, "SparseTensorSpec", "The type of a sparse COO tensor.");
  spec.def(py::init([](const py::object& shape, const Required<c10::ScalarType>& dtype) {
             return SparseTensorSpec{shape_from_python(shape, "SparseTensorSpec"),
                                     dtype.get("SparseTensorSpec", "dtype")};
           }),
           py::arg("shape"), py::arg("dtype") = c10::ScalarType::Float);
  spec.def_readonly("dtype", &SparseTensorSpec::dtype, kDtypeDoc);
  define_value<SparseTensorSpec>(spec, [](const SparseTensorSpec& self) {
    return py::make_tuple(shape_to_python(self.shape), self.dtype);
  });
}

void bind_string_spec(py::module_& module) {
  py::class_<StringSpec> spec(module, "StringSpec", "The type of strings.");
  spec.def(py::init([](const py::object& shape, const Argument<std::string>& given) {
             std::optional<std::string> encoding = given.get("StringSpec", "encoding");
             TORCH_CHECK_VALUE(!encoding || *encoding == "utf-8",
                               "StringSpec: `encoding` must be \"utf-8\", or None for bytes, but is \"",
                               encoding.value_or(""), "\".");
             return StringSpec{shape_from_python(shape, "StringSpec"), std::move(encoding)};
           }),
           py::arg("shape") = py::tuple(), py::arg("encoding") = "utf-8");
  spec.def_readonly("encoding", &StringSpec::encoding, "\"utf-8\", or None for bytes.");
  define_value<StringSpec>(spec, [](const StringSpec& self) {
    return py::make_tuple(shape_to_python(self.shape), self.encoding);
  });
}

void bind_dataset_spec(py::module_& module) {
  const auto element_spec = [](const DatasetSpec& self) {
    return self.element == nullptr ? py::none() : spec_to_python(*self.element);
  };
  py::class_<DatasetSpec>(module, "DatasetSpec", "The type of a dataset that is a leaf of an element.")
      .def(py::init([](const py::object& spec) {
             if (spec.is_none()) return DatasetSpec{};
             return DatasetSpec{std::make_shared<const ElementSpec>(spec_from_python(spec, "DatasetSpec"))};
           }),
           py::arg("element_spec") = py::none())
      .def_property_readonly("element_spec", element_spec, "The type of its elements; None where unknown.")
      .def("__repr__", [](const DatasetSpec& self) { return to_string(LeafSpec(self)); })
      .def(
          "__eq__", [](const DatasetSpec& self, const DatasetSpec& other) { return self == other; },
          py::is_operator(), py::arg("other"))
      .def("__hash__", [](const DatasetSpec& self) { return py::hash(py::str(to_string(LeafSpec(self)))); })
      .def("__reduce__", [element_spec](const DatasetSpec& self) {
        return py::make_tuple(py::type::of<DatasetSpec>(), py::make_tuple(element_spec(self)));
      });
}

void bind_opaque_spec(py::module_& module) {
  py::class_<OpaqueSpec> spec(
      module, "OpaqueSpec",
      "The type of Python objects of any class, which are carried unchanged; a batch of them is a list.");
  spec.def(
      py::init([](const py::object& shape) { return OpaqueSpec{shape_from_python(shape, "OpaqueSpec")}; }),
      py::arg("shape") = py::tuple());
  define_value<OpaqueSpec>(
      spec, [](const OpaqueSpec& self) { return py::make_tuple(shape_to_python(self.shape)); });
}

}  // namespace

std::optional<Dims> shape_from_python(const py::object& shape, const std::string& where) {
  if (shape.is_none()) return std::nullopt;
  TORCH_CHECK_TYPE(py::isinstance<py::sequence>(shape) && !py::isinstance<py::str>(shape), where,
                   ": `shape` must be None or a sequence of ints and None, but is ",
                   std::string(py::repr(shape)), ".");
  Dims dims;
  for (const auto dim : shape) dims.push_back(dim_from_python(dim, where));
  return dims;
}

py::object shape_to_python(const std::optional<Dims>& shape) {
  if (!shape) return py::none();
  py::tuple dims(shape->size());
  for (std::size_t i = 0; i < shape->size(); ++i) {
    dims[i] = (*shape)[i] == kUnknownDim ? py::object(py::none()) : py::int_((*shape)[i]);
  }
  return dims;
}

ElementSpec spec_from_python(py::handle value, const std::string& where) {
  Flat flat = flatten(value, Lists::kStructure, where);
  ElementSpec spec{std::move(flat.structure), {}};
  for (PyObject* const leaf : flat.leaves) spec.leaves.push_back(leaf_spec_from_python(leaf, where));
  return spec;
}

py::object spec_to_python(const ElementSpec& spec) {
  c10::SmallVector<py::object, 8> leaves;
  for (const auto& leaf : spec.leaves) leaves.push_back(std::visit(SpecWriter{}, leaf));
  return TreeSpec::of(spec.structure).assemble(leaves);
}

void bind_spec(py::module_& module) {
  bind_tensor_spec(module);
  bind_ragged_spec(module);
  bind_sparse_spec(module);
  bind_string_spec(module);
  bind_dataset_spec(module);
  bind_opaque_spec(module);
}

}  // namespace torch_distinput
