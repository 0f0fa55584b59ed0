// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/content_probe.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <exception>
#include <sstream>
#include <string_view>

#include "base/hash.h"
#include "core/message_of.h"
#include "distribute/sharding/auto_shard.h"
#include "execution/open.h"
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

void add_source(Hash& hash, const Node& source, const IterContext& context) {
  for (const UserCode* code : source.user_code()) hash.add(code->content());
  const PlanPtr plan = source.plan(context);
  if (!plan || plan->traits().runs_user_code || plan->size() == 0) return;
  const std::int64_t last = plan->size() - 1;
  std::array<std::int64_t, 3> positions{0, last / 2, last};
  if (plan->traits().remote) {
    auto announced = positions;
    plan->will_read(announced);
  }
  for (const Element& element : plan->fetch(positions))
    for (const Leaf& leaf : element.leaves()) add_leaf(hash, leaf);
}

void add_sources(Hash& hash, const Node& node, const IterContext& context) {
  // The folder of a file may have another name on each machine; its records are the same.
  if (takes_files(node)) return add_source(hash, node, context);
  const auto inputs = node.inputs();
  if (inputs.empty() && node.traits().sharding.file_names) return;
  if (inputs.empty()) return add_source(hash, node, context);
  for (const auto& input : inputs) add_sources(hash, *input, context);
}

}  // namespace

std::string content_probe(const NodePtr& node) {
  Hash hash;
  try {
    add_sources(hash, *node, epoch_context(make_execution_context({}), 0, 0, /*stream_only=*/false));
  } catch (const std::exception&) {
    return message_of(std::current_exception());
  }
  std::ostringstream text;
  text << std::hex << hash.value();
  return text.str();
}

}  // namespace torch_distinput
