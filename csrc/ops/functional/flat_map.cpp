// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "execution/open.h"
#include "ops/functional/dataset_function_node.h"
#include "ops/functional/interleave_iterators.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

/// As tf.data's flat_map: reads one dataset to its end, then the next. State and reading are those of
/// `interleave`.
class FlatMapNode final : public DatasetFunctionNode {
 public:
  using DatasetFunctionNode::DatasetFunctionNode;

  std::string_view name() const override { return "flat_map"; }
  std::string describe() const override { return "flat_map(" + function()->name() + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return flat_map(std::move(inputs.at(0)), function());
  }
  /// An interleave of one slot reads one dataset at a time.
  IteratorPtr iterate(const IterContext& context) const override {
    return interleave_iterator(open_iterator(input_ptr(), context.input(0)),
                               std::make_shared<const DatasetFunction>(dataset_function(context)),
                               {.cycle_length = 1, .block_length = 1}, context);
  }
};

}  // namespace

NodePtr flat_map(NodePtr input, FunctionPtr function) {
  TORCH_CHECK_VALUE(function != nullptr, "flat_map: `function` must not be null.");
  return std::make_shared<FlatMapNode>(std::move(input), std::move(function));
}

}  // namespace torch_distinput::ops
