// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/handshake.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <utility>

#include "comm/waiting.h"
#include "core/state_reader.h"
#include "distribute/coordination/content_probe.h"
#include "distribute/coordination/shared_spec.h"
#include "distribute/splitting/tail.h"
#include "execution/identity.h"
#include "runtime/permutation.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

/// The type of the elements on a rank that has no data to learn it from. It agrees with every other type.
constexpr const char* kUnknown = "unknown";

constexpr const char* kType = "type of the elements";

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

/// What the user should do about a difference in `fact`.
std::string advice(const std::string& fact) {
  if (fact == "dataset" || fact == "length" || fact == "content")
    return "Give every rank the whole dataset: the library assigns its rows to the ranks.";
  if (fact == "epoch") return "Call `set_epoch` with the same number on every rank, or on none.";
  if (fact == "position") return "Load the same state on every rank, or on none.";
  if (fact == "state of a stream" || fact == "first step")
    return "Load on each rank the state that this rank saved at the same step, or on none.";
  if (fact == "seed") return "Use the same seed on every rank, or none.";
  return "Every rank must run the same program on the same dataset with the same options.";
}

/// The value of fact `name`. Which facts there are depends on the policy and on the kind of dataset.
std::string value_of(const Handshake& handshake, const std::string& name) {
  const auto fact = std::find_if(handshake.facts.begin(), handshake.facts.end(),
                                 [&](const Handshake::Fact& one) { return one.name == name; });
  return fact == handshake.facts.end() ? "nothing" : fact->value;
}

/// In the order in which the ranks compare them.
std::vector<std::string> names_of_facts(const std::vector<Handshake>& handshakes) {
  std::vector<std::string> names;
  for (const Handshake& handshake : handshakes)
    for (const Handshake::Fact& fact : handshake.facts)
      if (std::find(names.begin(), names.end(), fact.name) == names.end()) names.push_back(fact.name);
  return names;
}

bool knows_type(const Handshake& handshake) { return value_of(handshake, kType) != kUnknown; }

/// Throws if ranks without data must learn the type of the elements, but no rank can send it.
void check_types_travel(const std::vector<Handshake>& handshakes) {
  std::vector<int> lacking;
  for (std::size_t rank = 0; rank < handshakes.size(); ++rank) {
    if (handshakes[rank].spec) return;
    if (handshakes[rank].lacks_type) lacking.push_back(static_cast<int>(rank));
  }
  if (lacking.empty() || std::none_of(handshakes.begin(), handshakes.end(), knows_type)) return;
  throw DistributedDatasetError(
      "DistributedDataset: " + name_ranks(lacking) +
      " cannot know the type of the elements without data, and the other ranks cannot send it, because it "
      "has named tuples or datasets. Declare it (`element_spec`).");
}

}  // namespace

std::string Handshake::encode() const {
  PeerTextWriter writer;
  writer.integer(drawn_seed);
  writer.integer(rows);
  writer.flag(lacks_type);
  writer.string(encode_spec(spec));
  writer.integer(facts.size());
  for (const auto& [name, value] : facts) {
    writer.string(name);
    writer.string(value);
  }
  return writer.take();
}

Handshake Handshake::decode(PeerTextReader reader) {
  Handshake handshake;
  handshake.drawn_seed = reader.bits("the seed");
  handshake.rows = reader.integer("the rows before the position", 0, kMaxCounted);
  handshake.lacks_type = reader.flag("whether the type is not known");
  handshake.spec = decode_spec({reader.string("the type"), reader.whose()});
  const std::size_t facts = reader.count("the number of facts");
  while (handshake.facts.size() < facts) {
    std::string name(reader.string("the name of a fact"));
    handshake.facts.push_back({std::move(name), std::string(reader.string("the value of a fact"))});
  }
  reader.end();
  return handshake;
}

Handshake describe_handshake(const Distribution& distribution, const EpochPosition& at, bool seed_given,
                             std::vector<Handshake::Fact> facts) {
  const RowAssignment& assignment = distribution.assignment;
  const InputOptions& input = distribution.input;
  const StepPosition& position = at.start.position;
  Handshake handshake;
  handshake.facts = std::move(facts);
  handshake.drawn_seed = at.seed;
  handshake.rows = position.row;
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
  if (distribution.node) add("batch size", std::to_string(assignment.batch));
  // Under OFF each rank may have data of its own.
  if (distribution.node && policy != AutoShardPolicy::kOff) {
    // Before the pipeline, because a difference has advice of its own: a rank got only its share of the data.
    add("length", std::to_string(distribution.cardinality));
    add("pipeline", pipeline_identity(distribution.node).str());
    // Files that only another rank reads need not be readable here.
    if (policy != AutoShardPolicy::kFile) add("content", content_probe(distribution.node));
  }
  add(kType, distribution.spec ? type_text(*distribution.spec) : kUnknown);
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

void check_handshakes_agree(const std::vector<Handshake>& handshakes) {
  for (const std::string& name : names_of_facts(handshakes)) {
    std::map<std::string, std::vector<int>> ranks_by_value;
    for (std::size_t rank = 0; rank < handshakes.size(); ++rank) {
      const std::string value = value_of(handshakes[rank], name);
      if (value != kUnknown) ranks_by_value[value].push_back(static_cast<int>(rank));
    }
    if (ranks_by_value.size() <= 1) continue;
    std::ostringstream text;
    text << "DistributedDataset: the ranks must agree on " << name << ", but ";
    const char* separator = "";
    for (const auto& [value, ranks] : ranks_by_value) {
      text << separator << name_ranks(ranks) << (ranks.size() == 1 ? " has " : " have ") << value;
      separator = "; ";
    }
    text << ". " << advice(name);
    throw DistributedDatasetError(text.str(), name);
  }
  check_types_travel(handshakes);
}

}  // namespace torch_distinput
