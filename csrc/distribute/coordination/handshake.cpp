// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/handshake.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include <c10/util/StringUtil.h>
#include <c10/util/hash.h>

#include "distribute/coordination/content_probe.h"
#include "distribute/splitting/tail.h"
#include "execution/changed_weights.h"
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

/// Their number, and what tells them apart: there may be millions.
std::string excluded_text(const std::vector<ExcludedRows>& excluded) {
  if (excluded.empty()) return "none";
  std::size_t rows = 0;
  for (const ExcludedRows& entry : excluded) rows += entry.rows.size();
  return c10::str(rows, " with hash ", c10::sha1(State(state_of(excluded)).str()).str());
}

}  // namespace

Handshake describe_handshake(const Distribution& distribution, const EpochPosition& at, bool seed_given,
                             std::vector<Handshake::Fact> facts, bool with_rows) {
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
  if (assignment.streams) add("streams", std::to_string(assignment.streams->start.count));
  if (distribution.node) add("batch size", batch_size_text(assignment));
  // Under OFF each rank may have data of its own.
  if (distribution.node && policy != AutoShardPolicy::kOff) {
    // Before the pipeline, because a difference has advice of its own: a rank got only its share of the data.
    add("length", std::to_string(distribution.cardinality));
    add("pipeline", pipeline_identity(distribution.node).str());
    // Files that only another rank reads need not be readable here.
    const bool own_files =
        policy == AutoShardPolicy::kFile || (assignment.streams && assignment.streams->cut->by_files());
    if (!own_files) add("content", with_rows ? content_probe(distribution.node) : "not read");
  }
  add(Handshake::kType, distribution.spec ? type_text(*distribution.spec) : Handshake::kUnknown);
  add("split", split_name(input.split));
  add("weights", weights_text(input.weights));
  add("weights of the mixture", State(state_of(at.changed_weights)).str());
  add("excluded rows", excluded_text(at.excluded));
  add("balance", distribution.balance ? distribution.balance->identity() +
                                            ", balance_window=" + std::to_string(input.balance_window)
                                      : "none");
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
