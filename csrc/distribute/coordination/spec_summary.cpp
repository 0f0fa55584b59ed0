// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/spec_summary.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <variant>

#include "distribute/coordination/shared_spec.h"

namespace torch_distinput {
namespace {

bool lacks_dims(const TensorSpec& spec) {
  const bool known = spec.shape && std::none_of(spec.shape->begin(), spec.shape->end(),
                                                [](std::int64_t dim) { return dim == kUnknownDim; });
  return spec.expected.empty() && !known;
}

}  // namespace

SpecSummary SpecSummary::of(int rank, const SpecPtr& spec) {
  SpecSummary summary;
  if (encode_spec(spec).empty()) return summary;
  summary.spec_ = spec;
  summary.rank_ = rank;
  for (std::size_t leaf = 0; leaf < spec->leaves.size(); ++leaf) {
    const auto* const dense = std::get_if<TensorSpec>(&spec->leaves[leaf]);
    if (dense == nullptr || dense->expected.empty()) continue;
    summary.learn({leaf, dense->expected.size()}, {rank, dense->expected});
  }
  return summary;
}

void SpecSummary::join(const SpecSummary& other) {
  if (other.spec_ && (!spec_ || other.rank_ < rank_)) {
    spec_ = other.spec_;
    rank_ = other.rank_;
  }
  for (const auto& [place, seen] : other.seen_) learn(place, seen);
}

void SpecSummary::learn(std::pair<std::size_t, std::size_t> place, const Seen& seen) {
  const auto [known, added] = seen_.try_emplace(place, seen);
  if (!added && seen.rank < known->second.rank) known->second = seen;
}

SpecPtr SpecSummary::complete(const SpecPtr& own) const {
  if (!own) return spec_;
  auto completed = std::make_shared<ElementSpec>(*own);
  for (std::size_t leaf = 0; leaf < completed->leaves.size(); ++leaf) {
    auto* const dense = std::get_if<TensorSpec>(&completed->leaves[leaf]);
    if (dense != nullptr && lacks_dims(*dense)) dense->expected = find_dims(*dense, leaf);
  }
  return completed;
}

/// The dims that the lowest rank saw for leaf `leaf` and that fit `spec`; empty if no rank saw any.
Dims SpecSummary::find_dims(const TensorSpec& spec, std::size_t leaf) const {
  const Seen* found = nullptr;
  for (auto seen = seen_.lower_bound({leaf, 0}); seen != seen_.end() && seen->first.first == leaf; ++seen) {
    if (spec.shape && spec.shape->size() != seen->first.second) continue;
    if (found == nullptr || seen->second.rank < found->rank) found = &seen->second;
  }
  return found == nullptr ? Dims() : found->dims;
}

void SpecSummary::encode(PeerTextWriter& text) const {
  text.string(encode_spec(spec_));
  if (spec_) text.integer(rank_);
  text.integer(seen_.size());
  for (const auto& [place, seen] : seen_) {
    text.integer(place.first);
    text.integer(seen.rank);
    encode_dims(text, seen.dims);
  }
}

SpecSummary SpecSummary::decode(PeerTextReader& text, int group) {
  const auto rank = [&] { return static_cast<int>(text.integer("a rank", 0, group - 1)); };
  SpecSummary summary;
  summary.spec_ = decode_spec({text.string("the type"), text.whose()});
  if (summary.spec_) summary.rank_ = rank();
  for (std::size_t left = text.count("the number of leaves with dims"); left > 0; --left) {
    const auto leaf = static_cast<std::size_t>(
        text.integer("the number of a leaf", 0, std::numeric_limits<std::int64_t>::max()));
    Seen seen{rank(), {}};
    seen.dims = decode_dims(text);
    if (seen.dims.empty()) text.fail("the number of dims", "at least 1", "0");
    if (!summary.seen_.try_emplace({leaf, seen.dims.size()}, seen).second)
      text.fail("the dims of a leaf", "there once", "there twice");
  }
  return summary;
}

}  // namespace torch_distinput
