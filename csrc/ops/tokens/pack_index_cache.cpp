// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/tokens/pack_index_cache.h"

#include <algorithm>
#include <utility>

namespace torch_distinput {
namespace {

/// Documents whose lengths are compared.
constexpr std::int64_t kCompared = 64;

}  // namespace

PackIndexPtr PackIndexCache::get(std::vector<std::int64_t> order, const DocumentLengths& documents,
                                 const std::function<PackIndexPtr()>& make) {
  // What tells other documents.
  order.push_back(documents.size());
  const bool endless = documents.size() == kEndless;
  const std::int64_t stride = endless ? 1 : std::max<std::int64_t>(documents.size() / kCompared, 1);
  for (std::int64_t i = 0; i < std::min(documents.size(), kCompared); ++i)
    documents.read(i * stride, {&order.emplace_back(), 1});
  return indexes_.get(std::move(order), make);
}

}  // namespace torch_distinput
