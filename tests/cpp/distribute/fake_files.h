// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// A reader of "files" that yields their names as records, which is enough because sharding uses traits only.
class FakeReader final : public Node {
 public:
  explicit FakeReader(NodePtr names) : names_(std::move(names)) {}

  std::string_view name() const override { return "fake_reader"; }
  std::string describe() const override { return "fake_reader()"; }
  std::vector<NodePtr> inputs() const override { return {names_}; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<FakeReader>(std::move(inputs.at(0)));
  }
  SpecPtr spec() const override { return names_->spec(); }
  std::int64_t cardinality() const override { return kUnknownCardinality; }
  Traits traits() const override { return {.sharding = {.reader = true}}; }
  IteratorPtr iterate(const IterContext& context) const override { return names_->iterate(context); }

 private:
  NodePtr names_;
};

}  // namespace torch_distinput
