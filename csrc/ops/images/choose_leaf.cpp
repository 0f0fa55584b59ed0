// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/images/choose_leaf.h"

#include <algorithm>
#include <vector>

#include <c10/util/Exception.h>

#include "core/names.h"

namespace torch_distinput {
namespace {

/// The leaves of the part of `structure` that `key` names: [begin, end).
struct LeafRange {
  std::size_t begin;
  std::size_t end;
};

LeafRange keyed_leaves(const Structure& structure, const ImageKey& key, const LeafQuery& query) {
  const auto& children = structure.children();
  std::size_t child = children.size();
  std::string shown;
  if (const auto* name = std::get_if<std::string>(&key)) {
    const auto& keys = structure.keys();
    child = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), *name) - keys.begin());
    if (keys.empty()) child = children.size();
    shown = "\"" + *name + "\"";
  } else {
    const std::int64_t index = std::get<std::int64_t>(key);
    if (index >= 0 && static_cast<std::size_t>(index) < children.size() && structure.keys().empty())
      child = static_cast<std::size_t>(index);
    shown = std::to_string(index);
  }
  TORCH_CHECK_VALUE(child < children.size(), query.op, ": `", query.parameter, "` ", shown,
                    " names no part of the elements, which are ", structure.str(), ".");
  std::size_t begin = 0;
  for (std::size_t i = 0; i < child; ++i) begin += static_cast<std::size_t>(children[i]->leaf_count());
  return {begin, begin + static_cast<std::size_t>(children[child]->leaf_count())};
}

}  // namespace

std::size_t choose_leaf(const ElementSpec& spec, const ImageKey& key, const LeafQuery& query,
                        const std::set<std::size_t>& last_choice) {
  LeafRange range{0, spec.leaves.size()};
  if (key.index() != 0) range = keyed_leaves(*spec.structure, key, query);
  std::vector<std::size_t> found;
  for (std::size_t leaf = range.begin; leaf < range.end; ++leaf) {
    if (query.suits(spec.leaves[leaf])) found.push_back(leaf);
  }
  if (found.size() > 1) std::erase_if(found, [&](std::size_t leaf) { return last_choice.contains(leaf); });
  TORCH_CHECK_VALUE(!found.empty(), query.op, ": no leaf", key.index() == 0 ? "" : " that `",
                    key.index() == 0 ? "" : query.parameter, key.index() == 0 ? "" : "` names", " is ",
                    query.what, ": ", to_string(spec), ".");
  TORCH_CHECK_VALUE(found.size() == 1, query.op, ": `", query.parameter, "` must name one leaf, because ",
                    found.size(), " leaves could be meant: ", leaf_name(*spec.structure, found[0]), " and ",
                    leaf_name(*spec.structure, found[1]), ".");
  return found.front();
}

std::string describe_key(const ImageKey& key) {
  if (const auto* const name = std::get_if<std::string>(&key)) return "'" + *name + "'";
  if (const auto* const index = std::get_if<std::int64_t>(&key)) return std::to_string(*index);
  return "None";
}

}  // namespace torch_distinput
