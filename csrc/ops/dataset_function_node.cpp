// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/dataset_function_node.h"

#include <memory>
#include <utility>

#include "core/element_type.h"
#include "ops/open.h"

namespace torch_distinput {

SpecPtr DatasetFunctionNode::spec() const { return probe().spec; }

bool DatasetFunctionNode::yields_readers() const { return probe().readers; }

DatasetFunctionNode::Probe DatasetFunctionNode::probe() const {
  {
    const std::lock_guard lock(mutex_);
    if (probe_) return *probe_;
  }
  // Users' code runs here: it may wait for a lock (the GIL) whose holder waits for ours.
  Probe found = look();
  const std::lock_guard lock(mutex_);
  if (!probe_ && found.spec != nullptr) probe_ = found;
  return found;
}

DatasetFunctionNode::Probe DatasetFunctionNode::look() const {
  Options options = this->options();
  options.prefetch = 0;
  const IterContext context = epoch_context(make_engine(options), 0, 0, /*stream_only=*/false);
  std::optional<Element> first = open_iterator(input_ptr(), context.input(0))->next();
  if (!first) return {};
  const NodePtr dataset = dataset_function(context).dataset(std::move(*first), 0);
  const SpecPtr elements = dataset->spec();
  SpecPtr spec =
      elements == nullptr ? nullptr : std::make_shared<const ElementSpec>(expected_only(*elements));
  return {std::move(spec), reads_files(*dataset)};
}

}  // namespace torch_distinput
