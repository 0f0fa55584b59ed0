// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/content_probe.h"

#include <algorithm>
#include <cstdint>
#include <exception>
#include <sstream>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "core/message_of.h"
#include "distribute/sharding/shard_names.h"
#include "execution/open.h"
#include "execution/reads_files.h"
#include "torch_distinput/function.h"

namespace torch_distinput {
namespace {

void add_items(Hash& hash, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const at::Tensor dense = tensor.contiguous();
  hash.add({static_cast<const char*>(dense.const_data_ptr()), static_cast<std::size_t>(dense.nbytes())});
}

void add_leaf(Hash& hash, const Leaf& leaf) {
  if (const auto* dense = std::get_if<at::Tensor>(&leaf)) add_items(hash, *dense);
  if (const auto* strings = std::get_if<Bytes>(&leaf)) add_items(hash, strings->values);
  if (const auto* ragged = std::get_if<Ragged>(&leaf)) add_items(hash, ragged->values);
}

/// The plan of `source`; null where nothing of it is compared.
PlanPtr plan_of(const Node& source, const IterContext& context) {
  PlanPtr plan = source.plan(context);
  return !plan || plan->traits().runs_user_code || plan->size() == 0 ? nullptr : plan;
}

bool reads_blocks(const Node& source) {
  const auto* const files = dynamic_cast<const ReadsFiles*>(&source);
  return files != nullptr && files->reads_blocks();
}

/// The elements that are compared. A row of an object costs its block, which each rank would download.
std::vector<std::int64_t> compared(const Node& source, const Plan& plan) {
  if (plan.traits().remote && reads_blocks(source)) return {};
  const std::int64_t last = plan.size() - 1;
  return {0, last / 2, last};
}

void announce(const Node& source, const Plan& plan) {
  auto positions = compared(source, plan);
  if (plan.traits().remote && !positions.empty()) plan.will_read(positions);
}

void add_source(Hash& hash, const Node& source, const IterContext& context) {
  for (const UserCode* code : source.user_code()) hash.add(code->content());
  const PlanPtr plan = plan_of(source, context);
  if (!plan) return;
  if (reads_blocks(source)) {
    for (const std::int64_t start : plan->block_starts()) hash.add_word(static_cast<std::uint64_t>(start));
  }
  announce(source, *plan);
  auto positions = compared(source, *plan);
  if (positions.empty()) return;
  for (const Element& element : plan->fetch(positions))
    for (const Leaf& leaf : element.leaves()) add_leaf(hash, leaf);
}

/// Calls `visit(source)` for each source below `node` that is compared.
template <class Visit>
void for_each_source(const Node& node, const Visit& visit) {
  // The folder of a file may have another name on each machine; its records are the same.
  if (takes_files(node)) return visit(node);
  const auto inputs = node.inputs();
  if (inputs.empty() && node.traits().sharding.file_names) return;
  if (inputs.empty()) return visit(node);
  for (const auto& input : inputs) for_each_source(*input, visit);
}

IterContext context_of_probe() {
  return epoch_context(make_execution_context({}), 0, 0, /*stream_only=*/false);
}

}  // namespace

std::string content_probe(const NodePtr& node) {
  Hash hash;
  try {
    const IterContext context = context_of_probe();
    for_each_source(*node, [&](const Node& source) { add_source(hash, source, context); });
  } catch (const std::exception&) {
    return message_of(std::current_exception());
  }
  std::ostringstream text;
  text << std::hex << hash.value();
  return text.str();
}

void announce_content_probe(const NodePtr& node) {
  const IterContext context = context_of_probe();
  for_each_source(*node, [&](const Node& source) {
    if (const PlanPtr plan = plan_of(source, context)) announce(source, *plan);
  });
}

}  // namespace torch_distinput
