// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/element_type.h"

#include <c10/util/Exception.h>

#include <string>

namespace torch_distinput {
namespace {

/// The same leaf with its shape left open.
LeafSpec without_shape(LeafSpec leaf) {
  std::visit(
      [](auto& spec) {
        if constexpr (requires { spec.shape; }) spec.shape.reset();
      },
      leaf);
  return leaf;
}

/// A cheap look at the usual case, dense leaves: other kinds are left to `check_element`.
bool has_type(const Element& element, const ElementSpec& type) {
  if (element.structure() != type.structure) return false;
  for (std::size_t leaf = 0; leaf < type.leaves.size(); ++leaf) {
    const auto* dense = std::get_if<at::Tensor>(&element.leaves()[leaf]);
    const auto* spec = std::get_if<TensorSpec>(&type.leaves[leaf]);
    if (dense == nullptr || spec == nullptr || dense->scalar_type() != spec->dtype) return false;
  }
  return true;
}

}  // namespace

ElementSpec probed_spec(const Element& element) { return expected_only(spec_of(element)); }

ElementSpec expected_only(ElementSpec spec) {
  for (LeafSpec& leaf : spec.leaves) {
    if (auto* tensor = std::get_if<TensorSpec>(&leaf);
        tensor != nullptr && tensor->shape && tensor->expected.empty())
      tensor->expected = *tensor->shape;
    std::visit(
        [](auto& leaf_spec) {
          if constexpr (requires { leaf_spec.shape; }) {
            if (leaf_spec.shape) leaf_spec.shape->assign(leaf_spec.shape->size(), kUnknownDim);
          }
        },
        leaf);
  }
  return spec;
}

const ElementSpec& ElementType::first(const Element& element) {
  std::call_once(once_, [&] {
    first_ = spec_of(element);
    for (LeafSpec& leaf : first_->leaves) leaf = without_shape(std::move(leaf));
  });
  return *first_;
}

void ElementType::check(const Element& element, std::int64_t number, std::string_view source) {
  const ElementSpec& type = first(element);
  if (has_type(element, type)) return;
  check_element(element, type, c10::str(source, ": element ", number));
}

SpecPtr SpecProbe::get(const std::function<SpecPtr()>& look) const {
  {
    const std::lock_guard lock(mutex_);
    if (spec_ != nullptr) return spec_;
  }
  // Users' code runs here: it may wait for a lock (the GIL) whose holder waits for ours.
  SpecPtr found = look();
  const std::lock_guard lock(mutex_);
  if (spec_ == nullptr) spec_ = std::move(found);
  return spec_;
}

}  // namespace torch_distinput
