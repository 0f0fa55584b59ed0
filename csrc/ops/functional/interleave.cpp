// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <c10/util/Exception.h>

#include "base/cpus.h"
#include "execution/execution_context.h"
#include "execution/open.h"
#include "execution/own_threads.h"
#include "ops/functional/dataset_function_node.h"
#include "ops/functional/interleave_iterators.h"
#include "ops/ops.h"

namespace torch_distinput::ops {
namespace {

constexpr std::int64_t kInterleaveAutomatic = -1;
/// Memory for all slots is allocated at the start, so their number needs a limit; far fewer datasets can be
/// open at a time.
constexpr std::int64_t kLongestCycle = 1 << 20;

/// As tf.data's interleave, in its order of elements (see interleave_iterators.h). The default cycle is 4,
/// not the number of CPUs as in tf.data, so that the order does not depend on the machine.
class InterleaveNode final : public DatasetFunctionNode, public OwnThreads {
 public:
  InterleaveNode(NodePtr input, FunctionPtr function, InterleaveOptions options)
      : DatasetFunctionNode(std::move(input), std::move(function)), options_(options) {}

  std::string_view name() const override { return "interleave"; }
  std::string describe() const override {
    std::string text = call();
    if (options_.num_parallel_calls)
      text += ", num_parallel_calls=" + std::to_string(*options_.num_parallel_calls);
    if (!options_.deterministic) text += ", deterministic=False";
    return text + ")";
  }
  std::string identity() const override { return call() + ")"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return interleave(std::move(inputs.at(0)), function(), options_);
  }

  IteratorPtr iterate(const IterContext& context) const override {
    IteratorPtr elements = open_iterator(input_ptr(), context.input(0));
    auto function = std::make_shared<const DatasetFunction>(dataset_function(context));
    if (!options_.num_parallel_calls)
      return interleave_iterator(std::move(elements), std::move(function), turns(), context);
    const bool ordered = context.execution->keeps_order(options_.deterministic);
    return (ordered ? ordered_parallel_interleave : unordered_parallel_interleave)(
        std::move(elements), std::move(function), turns(), threads(), context);
  }

  ThreadUse work_threads(const IterContext&) const override {
    return options_.num_parallel_calls ? ThreadUse{kInterleaveThreads, threads()} : ThreadUse{};
  }

 private:
  InterleaveTurns turns() const {
    return {options_.cycle_length.value_or(kDefaultCycleLength), options_.block_length};
  }
  /// At most as many threads as datasets can be open; more would have nothing to do.
  std::int64_t threads() const {
    const std::int64_t asked = *options_.num_parallel_calls;
    return std::min(asked == kInterleaveAutomatic ? available_cpus() : asked, turns().cycle_length);
  }
  std::string call() const {
    return "interleave(" + function()->name() + ", cycle_length=" + std::to_string(turns().cycle_length) +
           ", block_length=" + std::to_string(turns().block_length);
  }

  InterleaveOptions options_;
};

}  // namespace

NodePtr interleave(NodePtr input, FunctionPtr function, InterleaveOptions options) {
  TORCH_CHECK_VALUE(function != nullptr, "interleave: `function` must not be null.");
  TORCH_CHECK_VALUE(options.cycle_length.value_or(1) >= 1,
                    "interleave: `cycle_length` must be at least 1, but is ", *options.cycle_length, ".");
  TORCH_CHECK_VALUE(options.cycle_length.value_or(1) <= kLongestCycle,
                    "interleave: `cycle_length` must be at most ", kLongestCycle, ", but is ",
                    *options.cycle_length, ".");
  TORCH_CHECK_VALUE(options.block_length >= 1, "interleave: `block_length` must be at least 1, but is ",
                    options.block_length, ".");
  const std::int64_t calls = options.num_parallel_calls.value_or(1);
  TORCH_CHECK_VALUE(calls >= 1 || calls == kInterleaveAutomatic,
                    "interleave: `num_parallel_calls` must be at least 1, or -1 for automatic, but is ",
                    calls, ".");
  return std::make_shared<InterleaveNode>(std::move(input), std::move(function), options);
}

}  // namespace torch_distinput::ops
