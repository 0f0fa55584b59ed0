// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/handshake.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "distribute/coordination/content_probe.h"
#include "distribute/splitting/tail.h"
#include "execution/identity.h"
#include "runtime/permutation.h"

namespace torch_distinput {
namespace {

/// The structure, and kind, dtype and number of dimensions of each leaf: sizes may differ between ranks.
std::string type_text(const ElementSpec& spec) {
  ElementSpec type = spec;
  for (LeafSpec& leaf : type.leaves) {
    std::visit(
        [](auto& kind) {
          if constexpr (requires { kind.shape; }) {
            if (kind.shape) std::fill(kind.shape->begin(), kind.shape->end(), kUnknownDim);
          }
        },
        leaf);
  }
  return to_string(type);
}

std::string weights_text(const std::optional<std::vector<double>>& weights) {
  if (!weights) return "none";
  std::ostringstream text;
  const char* separator = "";
  for (const double weight : *weights) text << std::exchange(separator, " ") << weight;
  return text.str();
}

}  // namespace

Handshake describe_handshake(const Distribution& distribution, const EpochPosition& at, bool seed_given,
                             std::vector<Handshake::Fact> facts) {
  const RowAssignment& assignment = distribution.assignment;
  const InputOptions& input = distribution.input;
  const StepPosition& position = at.start.position;
  Handshake handshake;
  handshake.facts = std::move(facts);
  handshake.drawn_seed = at.seed;
  handshake.rows = distribution.one_stream() ? 0 : position.row;
  handshake.spec = distribution.spec;
  handshake.lacks_type = !distribution.spec && input.tail != Tail::kUntilFirst && input.tail != Tail::kDrop;
  const auto add = [&](const char* name, std::string value) {
    handshake.facts.push_back({name, std::move(value)});
  };
  add("shuffle version", std::to_string(kPermutationVersion));
  add("ranks", std::to_string(assignment.replicas.ranks));
  add("replicas per rank", std::to_string(assignment.replicas.per_rank));
  const AutoShardPolicy policy = assignment.sharding.applied;
  add("auto_shard_policy", policy_name(policy));
  if (distribution.node) add("batch size", batch_size_text(assignment));
  // Under OFF each rank may have data of its own.
  if (distribution.node && policy != AutoShardPolicy::kOff) {
    // Before the pipeline, because a difference has advice of its own: a rank got only its share of the data.
    add("length", std::to_string(distribution.cardinality));
    add("pipeline", pipeline_identity(distribution.node).str());
    // Files that only another rank reads need not be readable here.
    if (policy != AutoShardPolicy::kFile) add("content", content_probe(distribution.node));
  }
  add(Handshake::kType, distribution.spec ? type_text(*distribution.spec) : Handshake::kUnknown);
  add("split", input.split == Split::kTf ? "tf" : "balanced");
  add("weights", weights_text(input.weights));
  add("tail", tail_name(input.tail));
  add("partial batch handling", distribution.completes ? "on" : "off");
  add("on_error", distribution.skips() ? "\"skip\"" : "\"raise\"");
  add("epoch", std::to_string(at.epoch));
  add("seed", seed_given ? std::to_string(at.seed) : "none");
  // Ranks that read streams of their own are at different rows.
  add("position", "step " + std::to_string(position.step) +
                      (distribution.one_stream() ? ", row " + std::to_string(position.row) : ""));
  return handshake;
}

}  // namespace torch_distinput
