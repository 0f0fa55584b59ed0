// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/element_type.h"

#include <c10/util/Exception.h>

#include "core/names.h"

namespace torch_distinput {
namespace {

/// Whether a leaf has the type that a spec names, its shape aside.
struct HasType {
  const LeafSpec& spec;

  bool operator()(const at::Tensor& leaf) const { return is_of<TensorSpec>(leaf.scalar_type()); }
  bool operator()(const Bytes& leaf) const {
    const auto* strings = std::get_if<StringSpec>(&spec);
    return strings != nullptr && strings->encoding.has_value() == leaf.utf8;
  }
  bool operator()(const Ragged& leaf) const { return is_of<RaggedTensorSpec>(leaf.values.scalar_type()); }
  bool operator()(const Sparse& leaf) const { return is_of<SparseTensorSpec>(leaf.value.scalar_type()); }
  bool operator()(const Opaque&) const { return std::holds_alternative<OpaqueSpec>(spec); }
  bool operator()(const NodePtr&) const { return std::holds_alternative<DatasetSpec>(spec); }

  template <class Spec>
  bool is_of(c10::ScalarType dtype) const {
    const auto* tensor = std::get_if<Spec>(&spec);
    return tensor != nullptr && tensor->dtype == dtype;
  }
};

/// A cheap check for every element; `check_element` then words the error for one that fails.
bool has_type(const Element& element, const ElementSpec& type) {
  if (element.structure() != type.structure) return false;
  for (std::size_t leaf = 0; leaf < type.leaves.size(); ++leaf) {
    if (!std::visit(HasType{type.leaves[leaf]}, element.leaves()[leaf])) return false;
  }
  return true;
}

}  // namespace

LeafSpec without_shape(LeafSpec leaf) {
  std::visit(
      [](auto& spec) {
        if constexpr (requires { spec.shape; }) spec.shape.reset();
      },
      leaf);
  return leaf;
}

ElementSpec probed_spec(const Element& element) { return expected_only(spec_of(element)); }

ElementSpec expected_only(ElementSpec spec) {
  for (LeafSpec& leaf : spec.leaves) {
    std::visit(
        [](auto& leaf_spec) {
          if constexpr (requires { leaf_spec.shape; }) {
            if (!leaf_spec.shape) return;
            if constexpr (requires { leaf_spec.expected; }) {
              if (leaf_spec.expected.empty()) leaf_spec.expected = *leaf_spec.shape;
            }
            leaf_spec.shape->assign(leaf_spec.shape->size(), kUnknownDim);
          }
        },
        leaf);
  }
  return spec;
}

void check_defined(const Element& element, std::string_view where) {
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
    const auto* const tensor = std::get_if<at::Tensor>(&element.leaves()[leaf]);
    TORCH_CHECK_VALUE(tensor == nullptr || tensor->defined(), where, ": ",
                      leaf_name(*element.structure(), leaf), " is an undefined tensor.");
  }
}

const ElementSpec& ElementType::first(const Element& element, std::int64_t number, std::string_view source) {
  std::call_once(once_, [&] {
    check_defined(element, c10::str(source, ": element ", number));
    first_ = spec_of(element);
    for (LeafSpec& leaf : first_->leaves) leaf = without_shape(std::move(leaf));
  });
  return *first_;
}

void ElementType::check(const Element& element, std::int64_t number, std::string_view source) {
  const ElementSpec& type = first(element, number, source);
  if (has_type(element, type)) return;
  check_element(element, type, c10::str(source, ": element ", number));
}

SpecPtr SpecProbe::get(const std::function<SpecPtr()>& look) const {
  {
    const std::lock_guard lock(mutex_);
    if (spec_ != nullptr) return spec_;
  }
  // Users' code runs in `look`, so no lock is held: it may wait for the GIL, whose holder may wait for this
  // mutex.
  SpecPtr found = look();
  const std::lock_guard lock(mutex_);
  if (spec_ == nullptr) spec_ = std::move(found);
  return spec_;
}

}  // namespace torch_distinput
