// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/handshake_summary.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/state_reader.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Description = HandshakeSummary::Description;

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
std::string value_of(const Description& description, const std::string& name) {
  const auto fact = std::find_if(description.facts.begin(), description.facts.end(),
                                 [&](const Handshake::Fact& one) { return one.name == name; });
  return fact == description.facts.end() ? "nothing" : fact->value;
}

/// In the order in which the ranks compare them.
std::vector<std::string> names_of_facts(const HandshakeSummary& all) {
  std::vector<std::string> names;
  for (const Description& description : all.descriptions())
    for (const Handshake::Fact& fact : description.facts)
      if (std::find(names.begin(), names.end(), fact.name) == names.end()) names.push_back(fact.name);
  return names;
}

/// The ranks with each value of fact `name`.
std::map<std::string, RankRanges> ranks_by_value(const HandshakeSummary& all, const std::string& name) {
  std::map<std::string, RankRanges> ranks;
  for (const Description& description : all.descriptions()) {
    const std::string value = value_of(description, name);
    if (value != Handshake::kUnknown) ranks[value].join(description.ranks);
  }
  return ranks;
}

/// How a message ends that cannot name all ranks.
std::string mention(std::int64_t left_out) {
  if (left_out == 0) return "";
  return "; " + std::to_string(left_out) + " more " + (left_out == 1 ? "rank is" : "ranks are") +
         " not listed";
}

bool knows_type(const Description& description) {
  return value_of(description, Handshake::kType) != Handshake::kUnknown;
}

/// Throws if ranks without data must learn the type of the elements, but no rank can send it.
void check_types_travel(const HandshakeSummary& all) {
  if (all.spec().known()) return;
  RankRanges lacking;
  for (const Description& description : all.descriptions())
    if (description.lacks_type) lacking.join(description.ranks);
  if (lacking.empty() || std::ranges::none_of(all.descriptions(), knows_type)) return;
  throw DistributedDatasetError(
      "DistributedDataset: " + name_ranks(lacking) +
      " cannot know the type of the elements without data, and the other ranks cannot send it, because it "
      "has named tuples or datasets. Declare it (`element_spec`).");
}

Description decode_description(PeerTextReader& reader, int group) {
  Description description;
  description.ranks = RankRanges::decode(reader, group);
  if (description.ranks.empty()) reader.fail("the ranks of a handshake", "at least one", "none");
  description.lacks_type = reader.flag("whether the type is not known");
  const std::size_t facts = reader.count("the number of facts");
  while (description.facts.size() < facts) {
    std::string name(reader.string("the name of a fact"));
    description.facts.push_back({std::move(name), std::string(reader.string("the value of a fact"))});
  }
  return description;
}

}  // namespace

HandshakeSummary HandshakeSummary::of(int rank, const Handshake& handshake) {
  HandshakeSummary summary;
  summary.descriptions_ = {{handshake.facts, handshake.lacks_type, RankRanges::of(rank)}};
  summary.drawn_seed_ = handshake.drawn_seed;
  summary.rows_ = handshake.rows;
  summary.spec_ = SpecSummary::of(rank, handshake.spec);
  return summary;
}

void HandshakeSummary::join(const HandshakeSummary& other) {
  // The description of the lowest rank is always kept.
  if (other.descriptions_.front().ranks.first() < descriptions_.front().ranks.first())
    drawn_seed_ = other.drawn_seed_;
  // No epoch has so many rows; the limit is for texts that were damaged.
  rows_ = std::min(rows_ + other.rows_, kMaxCounted);
  spec_.join(other.spec_);
  left_out_ += other.left_out_;
  for (const Description& description : other.descriptions_) add(description);
  std::ranges::sort(descriptions_, {}, [](const Description& one) { return one.ranks.first(); });
  for (; descriptions_.size() > kMaxDistinct; descriptions_.pop_back())
    left_out_ += static_cast<std::int64_t>(descriptions_.back().ranks.count());
}

void HandshakeSummary::add(const Description& description) {
  const auto same = std::ranges::find_if(descriptions_, [&](const Description& one) {
    return one.lacks_type == description.lacks_type && one.facts == description.facts;
  });
  if (same == descriptions_.end())
    descriptions_.push_back(description);
  else
    same->ranks.join(description.ranks);
}

std::int64_t HandshakeSummary::ranks() const noexcept {
  return std::accumulate(descriptions_.begin(), descriptions_.end(), left_out_,
                         [](std::int64_t sum, const Description& one) {
                           return sum + static_cast<std::int64_t>(one.ranks.count());
                         });
}

std::string HandshakeSummary::encode() const {
  PeerTextWriter text;
  text.integer(drawn_seed_);
  text.integer(rows_);
  spec_.encode(text);
  text.integer(descriptions_.size());
  for (const Description& description : descriptions_) {
    description.ranks.encode(text);
    text.flag(description.lacks_type);
    text.integer(description.facts.size());
    for (const auto& [name, value] : description.facts) {
      text.string(name);
      text.string(value);
    }
  }
  text.integer(left_out_);
  return text.take();
}

HandshakeSummary HandshakeSummary::decode(PeerTextReader reader, int group) {
  HandshakeSummary summary;
  summary.drawn_seed_ = reader.bits("the seed");
  summary.rows_ = reader.integer("the rows before the position", 0, kMaxCounted);
  summary.spec_ = SpecSummary::decode(reader, group);
  const auto distinct = reader.integer("the number of handshakes", 1, kMaxDistinct);
  RankRanges ranks;
  while (std::ssize(summary.descriptions_) < distinct) {
    Description one = decode_description(reader, group);
    if (ranks.overlaps(one.ranks)) reader.fail("a rank", "there once", "there twice");
    if (!ranks.empty() && one.ranks.first() < summary.descriptions_.back().ranks.first())
      reader.fail("the handshakes", "in the order of their lowest ranks", "in another");
    ranks.join(one.ranks);
    summary.descriptions_.push_back(std::move(one));
  }
  const auto kept = static_cast<std::int64_t>(ranks.count());
  summary.left_out_ = reader.integer("the number of ranks left out", 0, group - kept);
  reader.end();
  return summary;
}

std::string join_handshakes(const std::vector<std::string>& texts, int group, const std::string& whose) {
  std::optional<HandshakeSummary> joined;
  for (const std::string& text : texts) {
    HandshakeSummary one = HandshakeSummary::decode({text, whose}, group);
    if (joined)
      joined->join(one);
    else
      joined = std::move(one);
  }
  return joined.value().encode();
}

HandshakeSummary handshakes_of_all(const std::string& joined, int group, const std::string& whose) {
  const PeerTextReader reader(joined, whose);
  HandshakeSummary all = HandshakeSummary::decode(reader, group);
  if (all.ranks() != group)
    reader.fail("the number of ranks", std::to_string(group), std::to_string(all.ranks()));
  return all;
}

void check_handshakes_agree(const HandshakeSummary& all) {
  for (const std::string& name : names_of_facts(all)) {
    const auto ranks = ranks_by_value(all, name);
    if (ranks.size() <= 1) continue;
    std::string text = "DistributedDataset: the ranks must agree on " + name + ", but ";
    const char* separator = "";
    for (const auto& [value, having] : ranks) {
      text += std::exchange(separator, "; ") + name_ranks(having);
      text += (having.count() == 1 ? " has " : " have ") + value;
    }
    text += mention(all.left_out()) + ". " + advice(name);
    throw DistributedDatasetError(text, name);
  }
  // Such as the same facts in other orders, which no rank of one program sends.
  if (all.left_out() > 0) {
    throw DistributedDatasetError("DistributedDataset: the ranks describe what they read in more than " +
                                  std::to_string(HandshakeSummary::kMaxDistinct) + " ways. " + advice(""));
  }
  check_types_travel(all);
}

}  // namespace torch_distinput
