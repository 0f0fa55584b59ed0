// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/spec.h"

#include <algorithm>
#include <map>

#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "base/overloaded.h"
#include "core/element_type.h"
#include "core/names.h"

namespace torch_distinput {
namespace {

/// The shape of a leaf spec, or null for kinds that have none.
const std::optional<Dims>* shape_of(const LeafSpec& leaf) {
  return std::visit(
      [](const auto& spec) -> const std::optional<Dims>* {
        if constexpr (requires { spec.shape; }) {
          return &spec.shape;
        } else {
          return nullptr;
        }
      },
      leaf);
}

std::optional<Dims>* shape_of(LeafSpec& leaf) {
  return const_cast<std::optional<Dims>*>(shape_of(std::as_const(leaf)));
}

/// The dims that a probe saw, or null where there are none.
Dims* expected_of(LeafSpec& leaf) {
  return std::visit(
      [](auto& spec) -> Dims* {
        if constexpr (requires { spec.expected; }) {
          if (!spec.expected.empty()) return &spec.expected;
        }
        return nullptr;
      },
      leaf);
}

std::optional<std::string> encoding_of(bool utf8) {
  return utf8 ? std::optional<std::string>("utf-8") : std::nullopt;
}

LeafSpec leaf_spec_of(const Leaf& leaf) {
  return std::visit(
      Overloaded{
          [](const at::Tensor& value) -> LeafSpec {
            return TensorSpec{value.sizes().vec(), value.scalar_type(), {}};
          },
          [](const Bytes& value) -> LeafSpec { return StringSpec{value.shape, encoding_of(value.utf8)}; },
          [](const Ragged& value) -> LeafSpec {
            Dims shape{value.offsets.size(0) - 1, kUnknownDim};
            const auto inner = value.values.sizes().slice(1);
            shape.insert(shape.end(), inner.begin(), inner.end());
            return RaggedTensorSpec{shape, value.values.scalar_type(), 1, {}};
          },
          [](const Sparse& value) -> LeafSpec {
            return SparseTensorSpec{value.value.sizes().vec(), value.value.scalar_type()};
          },
          [](const Opaque& value) -> LeafSpec { return OpaqueSpec{value.shape}; },
          [](const NodePtr&) -> LeafSpec { return DatasetSpec{}; },
      },
      leaf);
}

bool fits(const std::optional<Dims>& declared, const Dims& actual) {
  if (!declared) return true;
  if (declared->size() != actual.size()) return false;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const auto dim = (*declared)[i];
    if (dim != kUnknownDim && actual[i] != kUnknownDim && dim != actual[i]) return false;
  }
  return true;
}

bool leaf_fits(const LeafSpec& actual, const LeafSpec& declared) {
  if (std::holds_alternative<DatasetSpec>(actual)) return std::holds_alternative<DatasetSpec>(declared);
  return without_shape(actual) == without_shape(declared) && fits(*shape_of(declared), **shape_of(actual));
}

/// What the user should do about a leaf that does not fit, where the types alone do not show it. Begins with
/// a space.
std::string advice(const LeafSpec& actual, const LeafSpec& declared) {
  const bool strings = std::holds_alternative<StringSpec>(actual);
  if (strings && std::holds_alternative<StringSpec>(declared) &&
      std::get<StringSpec>(actual).encoding != std::get<StringSpec>(declared).encoding) {
    return " Use str for encoding='utf-8' and bytes for encoding=None everywhere.";
  }
  return "";
}

std::optional<Dims> merge_shapes(const std::optional<Dims>& a, const std::optional<Dims>& b) {
  if (!a || !b || a->size() != b->size()) return std::nullopt;
  Dims merged = *a;
  for (std::size_t i = 0; i < merged.size(); ++i) {
    if (merged[i] != (*b)[i]) merged[i] = kUnknownDim;
  }
  return merged;
}

/// Dims of a zero-row tensor: dim 0 is 0; the others are the declared, else the expected ones, else 0.
Dims zero_row_dims(const std::optional<Dims>& shape, const Dims& expected) {
  Dims dims = shape ? *shape : expected;
  if (dims.empty()) return {0};
  for (std::size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] != kUnknownDim) continue;
    dims[i] = i < expected.size() && expected[i] != kUnknownDim ? expected[i] : 0;
  }
  dims[0] = 0;
  return dims;
}

Leaf zero_row_leaf(const LeafSpec& leaf) {
  return std::visit(
      Overloaded{
          [](const TensorSpec& spec) -> Leaf {
            return at::empty(zero_row_dims(spec.shape, spec.expected), spec.dtype);
          },
          [](const RaggedTensorSpec& spec) -> Leaf {
            Dims dims = zero_row_dims(spec.shape, spec.expected);
            if (dims.size() > 1) dims.erase(dims.begin() + 1);
            return Ragged{at::empty(dims, spec.dtype), at::zeros({1}, at::kLong)};
          },
          [](const SparseTensorSpec& spec) -> Leaf {
            const Dims dims = zero_row_dims(spec.shape, {});
            return Sparse{
                at::sparse_coo_tensor(at::empty({static_cast<std::int64_t>(dims.size()), 0}, at::kLong),
                                      at::empty({0}, spec.dtype), dims)};
          },
          [](const StringSpec& spec) -> Leaf {
            return Bytes{at::empty({0}, at::kByte), at::zeros({1}, at::kLong), zero_row_dims(spec.shape, {}),
                         spec.encoding.has_value()};
          },
          [](const OpaqueSpec& spec) -> Leaf { return Opaque{{}, zero_row_dims(spec.shape, {}), ""}; },
          [](const DatasetSpec&) -> Leaf {
            C10_THROW_ERROR(TypeError, "zero_rows: a dataset leaf has no zero-row value.");
          },
      },
      leaf);
}

void append_spec(const Structure& structure, const std::vector<LeafSpec>& leaves, std::size_t& next,
                 std::string& out) {
  using Kind = Structure::Kind;
  if (structure.kind() == Kind::kLeaf) {
    out += to_string(leaves[next++]);
    return;
  }
  if (structure.kind() == Kind::kNone) {
    out += "None";
    return;
  }
  const bool dict = structure.kind() == Kind::kDict;
  const bool list = structure.kind() == Kind::kList;
  if (structure.kind() == Kind::kNamedTuple) out += structure.name();
  out += dict ? "{" : list ? "[" : "(";
  const auto& children = structure.children();
  for (std::size_t i = 0; i < children.size(); ++i) {
    if (i > 0) out += ", ";
    if (dict) out += "'" + structure.keys()[i] + "': ";
    if (structure.kind() == Kind::kNamedTuple) out += structure.keys()[i] + "=";
    append_spec(*children[i], leaves, next, out);
  }
  if (structure.kind() == Kind::kTuple && children.size() == 1) out += ',';
  out += dict ? "}" : list ? "]" : ")";
}

}  // namespace

bool DatasetSpec::operator==(const DatasetSpec& other) const {
  if (!element || !other.element) return element == other.element;
  return *element == *other.element;
}

ElementSpec spec_of(const Element& element) {
  ElementSpec spec{element.structure(), {}};
  for (const auto& leaf : element.leaves()) spec.leaves.push_back(leaf_spec_of(leaf));
  return spec;
}

std::optional<std::int64_t> dim0(const LeafSpec& leaf) {
  const auto* shape = shape_of(leaf);
  if (shape == nullptr) return std::nullopt;
  if (!*shape) return kUnknownDim;
  if ((*shape)->empty()) return std::nullopt;
  return (*shape)->front();
}

LeafSpec prepend_dim(const LeafSpec& leaf, std::int64_t size) {
  LeafSpec result = leaf;
  if (auto* shape = shape_of(result); shape != nullptr && *shape) (*shape)->insert((*shape)->begin(), size);
  if (auto* ragged = std::get_if<RaggedTensorSpec>(&result)) ++ragged->ragged_rank;
  if (auto* expected = expected_of(result)) expected->insert(expected->begin(), size);
  return result;
}

LeafSpec replace_dim0(const LeafSpec& leaf, std::int64_t size) {
  LeafSpec result = leaf;
  if (auto* shape = shape_of(result); shape != nullptr && *shape && !(*shape)->empty())
    (*shape)->front() = size;
  if (auto* expected = expected_of(result)) expected->front() = size;
  return result;
}

LeafSpec drop_dim0(const LeafSpec& leaf) {
  LeafSpec result = leaf;
  if (auto* ragged = std::get_if<RaggedTensorSpec>(&result); ragged != nullptr && --ragged->ragged_rank == 0)
    result = TensorSpec{ragged->shape, ragged->dtype, ragged->expected};
  if (auto* shape = shape_of(result); shape != nullptr && *shape) {
    TORCH_INTERNAL_ASSERT(!(*shape)->empty(), "drop_dim0 of a scalar spec");
    (*shape)->erase((*shape)->begin());
  }
  if (auto* expected = expected_of(result)) expected->erase(expected->begin());
  return result;
}

ElementSpec merge_specs(const ElementSpec& a, const ElementSpec& b, std::string_view op) {
  TORCH_CHECK_VALUE(a.structure == b.structure, op, ": the structures of the inputs must be equal, but are ",
                    a.structure->str(), " and ", b.structure->str(), ".");
  ElementSpec merged = a;
  for (std::size_t i = 0; i < merged.leaves.size(); ++i) {
    auto& leaf = merged.leaves[i];
    TORCH_CHECK_VALUE(without_shape(leaf) == without_shape(b.leaves[i]), op, ": ", leaf_name(*a.structure, i),
                      " must have one type in all inputs, but is ", to_string(leaf), " and ",
                      to_string(b.leaves[i]), ".");
    if (auto* shape = shape_of(leaf)) *shape = merge_shapes(*shape, *shape_of(b.leaves[i]));
    std::visit(
        [&]<class Spec>(Spec& spec) {
          if constexpr (requires { spec.expected; }) {
            if (spec.expected != std::get<Spec>(b.leaves[i]).expected) spec.expected.clear();
          }
        },
        leaf);
  }
  return merged;
}

void check_element(const Element& element, const ElementSpec& spec, std::string_view where) {
  TORCH_CHECK_VALUE(element.structure() == spec.structure, where, ": expected the structure ",
                    spec.structure->str(), ", got ", element.structure()->str(), ".");
  for (std::size_t i = 0; i < spec.leaves.size(); ++i) {
    const LeafSpec actual = leaf_spec_of(element.leaves()[i]);
    TORCH_CHECK_VALUE(leaf_fits(actual, spec.leaves[i]), where, ": ", leaf_name(*spec.structure, i),
                      ": expected ", to_string(spec.leaves[i]), ", got ", to_string(actual), ".",
                      advice(actual, spec.leaves[i]));
  }
}

Element zero_rows(const ElementSpec& spec) {
  std::vector<Leaf> leaves;
  leaves.reserve(spec.leaves.size());
  for (const auto& leaf : spec.leaves) leaves.push_back(zero_row_leaf(leaf));
  return {spec.structure, std::move(leaves)};
}

std::string dtype_name(c10::ScalarType dtype) {
  using c10::ScalarType;
  static const std::map<ScalarType, std::string> kNames = {
      {ScalarType::Byte, "uint8"},
      {ScalarType::Char, "int8"},
      {ScalarType::Short, "int16"},
      {ScalarType::Int, "int32"},
      {ScalarType::Long, "int64"},
      {ScalarType::Half, "float16"},
      {ScalarType::Float, "float32"},
      {ScalarType::Double, "float64"},
      {ScalarType::ComplexHalf, "complex32"},
      {ScalarType::ComplexFloat, "complex64"},
      {ScalarType::ComplexDouble, "complex128"},
      {ScalarType::Bool, "bool"},
      {ScalarType::BFloat16, "bfloat16"},
      {ScalarType::UInt16, "uint16"},
      {ScalarType::UInt32, "uint32"},
      {ScalarType::UInt64, "uint64"},
  };
  const auto name = kNames.find(dtype);
  if (name != kNames.end()) return name->second;
  std::string text = c10::toString(dtype);
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

std::string dims_string(const std::optional<Dims>& shape) {
  if (!shape) return "None";
  std::string out = "(";
  for (std::size_t i = 0; i < shape->size(); ++i) {
    if (i > 0) out += ", ";
    out += (*shape)[i] == kUnknownDim ? "None" : std::to_string((*shape)[i]);
  }
  return out + (shape->size() == 1 ? ",)" : ")");
}

std::string to_string(const LeafSpec& leaf) {
  return std::visit(
      Overloaded{
          [](const TensorSpec& spec) {
            return "TensorSpec(shape=" + dims_string(spec.shape) + ", dtype=torch." + dtype_name(spec.dtype) +
                   ")";
          },
          [](const RaggedTensorSpec& spec) {
            return "RaggedTensorSpec(shape=" + dims_string(spec.shape) + ", dtype=torch." +
                   dtype_name(spec.dtype) + ", ragged_rank=" + std::to_string(spec.ragged_rank) + ")";
          },
          [](const SparseTensorSpec& spec) {
            return "SparseTensorSpec(shape=" + dims_string(spec.shape) + ", dtype=torch." +
                   dtype_name(spec.dtype) + ")";
          },
          [](const StringSpec& spec) {
            return "StringSpec(shape=" + dims_string(spec.shape) +
                   ", encoding=" + (spec.encoding ? "'" + *spec.encoding + "'" : "None") + ")";
          },
          [](const OpaqueSpec& spec) { return "OpaqueSpec(shape=" + dims_string(spec.shape) + ")"; },
          [](const DatasetSpec& spec) {
            return "DatasetSpec(" + (spec.element ? to_string(*spec.element) : std::string("unknown")) + ")";
          },
      },
      leaf);
}

std::string to_string(const ElementSpec& spec) {
  std::string out;
  std::size_t next = 0;
  append_spec(*spec.structure, spec.leaves, next, out);
  return out;
}

}  // namespace torch_distinput
