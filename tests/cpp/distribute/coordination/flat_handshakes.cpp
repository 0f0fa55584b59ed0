// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/flat_handshakes.h"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>

#include "comm/waiting.h"
#include "torch_distinput/error.h"

namespace torch_distinput::handshake_testing {
namespace {

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

bool knows_type(const Handshake& handshake) {
  return value_of(handshake, Handshake::kType) != Handshake::kUnknown;
}

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

bool lacks_dims(const TensorSpec& spec) {
  const bool known = spec.shape && std::none_of(spec.shape->begin(), spec.shape->end(),
                                                [](std::int64_t dim) { return dim == kUnknownDim; });
  return spec.expected.empty() && !known;
}

/// The dims that the lowest rank saw for leaf `index` and that fit `spec`; empty if no rank saw any.
Dims find_dims(const TensorSpec& spec, std::size_t index, const std::vector<SpecPtr>& of_ranks) {
  for (const SpecPtr& other : of_ranks) {
    if (!other || index >= other->leaves.size()) continue;
    const auto* const seen = std::get_if<TensorSpec>(&other->leaves[index]);
    if (seen == nullptr || seen->expected.empty()) continue;
    if (!spec.shape || spec.shape->size() == seen->expected.size()) return seen->expected;
  }
  return {};
}

}  // namespace

void check_flat(const std::vector<Handshake>& handshakes) {
  for (const std::string& name : names_of_facts(handshakes)) {
    std::map<std::string, std::vector<int>> ranks_by_value;
    for (std::size_t rank = 0; rank < handshakes.size(); ++rank) {
      const std::string value = value_of(handshakes[rank], name);
      if (value != Handshake::kUnknown) ranks_by_value[value].push_back(static_cast<int>(rank));
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

SpecPtr complete_flat(const SpecPtr& own, const std::vector<SpecPtr>& of_ranks) {
  if (!own) {
    const auto known =
        std::find_if(of_ranks.begin(), of_ranks.end(), [](const SpecPtr& spec) { return spec != nullptr; });
    return known == of_ranks.end() ? nullptr : *known;
  }
  auto completed = std::make_shared<ElementSpec>(*own);
  for (std::size_t i = 0; i < completed->leaves.size(); ++i) {
    auto* const dense = std::get_if<TensorSpec>(&completed->leaves[i]);
    if (dense != nullptr && lacks_dims(*dense)) dense->expected = find_dims(*dense, i, of_ranks);
  }
  return completed;
}

}  // namespace torch_distinput::handshake_testing
