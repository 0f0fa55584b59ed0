// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <exception>

#include "torch_distinput/options.h"

namespace torch_distinput {

/// What `look(options)` finds in the first row of a dataset (an optional), for an op that must see a row to
/// know its spec. Where that row fails and `options` skip nothing, up to 7 failing rows are skipped: options
/// later in the chain may say to skip, and if they do not, the iterator reports the failure. Throws what
/// `look` threw first if that finds no row.
template <class Look>
auto first_row(const Options& options, const Look& look) {
  constexpr std::int64_t kMaxBadRows = 7;
  try {
    return look(options);
  } catch (const std::exception&) {
    if (options.skip) throw;
    Options lenient = options;
    lenient.skip = Skip{.max_count = kMaxBadRows};
    try {
      if (auto found = look(lenient)) return found;
    } catch (const std::exception&) {
      // The first row's error says more than an error about the number of failing rows.
    }
    throw;
  }
}

}  // namespace torch_distinput
