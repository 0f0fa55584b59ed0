// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/dataset_function_node.h"

#include <memory>
#include <utility>

#include "core/element_type.h"
#include "core/first_row.h"
#include "execution/open.h"
#include "execution/skip_budget.h"
#include "ops/functional/shard_marks.h"

namespace torch_distinput {

SpecPtr DatasetFunctionNode::spec() const { return probe().spec; }

bool DatasetFunctionNode::yields_readers() const { return probe().readers; }

DatasetFunctionNode::Probe DatasetFunctionNode::probe() const {
  {
    const std::lock_guard lock(mutex_);
    if (probe_) return *probe_;
  }
  // Without the lock, because user code runs here: it may wait for the GIL, whose holder may wait for the
  // lock.
  Probe found = look();
  const std::lock_guard lock(mutex_);
  if (!probe_ && found.spec != nullptr) probe_ = found;
  return found;
}

DatasetFunctionNode::Probe DatasetFunctionNode::look() const {
  Options options = this->options();
  options.prefetch = 0;
  const auto found = first_row(options, [this](const Options& with) { return look(with); });
  return found.value_or(Probe{});
}

std::optional<DatasetFunctionNode::Probe> DatasetFunctionNode::look(const Options& options) const {
  const IterContext context = epoch_context(make_execution_context(options), 0, 0, /*stream_only=*/false);
  const DatasetFunction function = dataset_function(context);
  SkipBudget budget(context, function.call());
  const IteratorPtr elements = open_iterator(without_shard_marks(input_ptr()), context.input(0));
  for (std::int64_t number = 0;; ++number) {
    std::optional<Element> element = elements->next();
    if (!element) return std::nullopt;
    try {
      return probe_of(*function.dataset(std::move(*element), number));
    } catch (...) {
      budget.fail();
    }
  }
}

DatasetFunctionNode::Probe DatasetFunctionNode::probe_of(const Node& dataset) {
  const SpecPtr elements = dataset.spec();
  if (elements == nullptr) return {nullptr, reads_files(dataset)};
  return {std::make_shared<const ElementSpec>(expected_only(*elements)), reads_files(dataset)};
}

}  // namespace torch_distinput
