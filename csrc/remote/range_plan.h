// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "remote/http.h"

namespace torch_distinput {

/// How ranges become requests.
struct RangeRules {
  std::uint64_t gap = std::uint64_t{64} << 10;  ///< ranges so near to each other are read together
  std::uint64_t most = std::uint64_t{8} << 20;  ///< bytes of a request
  double most_waste = 0.2;                      ///< bytes that nobody asked for beside those asked for
};

/// Returns the requests for `ranges`, which may overlap and are in any order, sorted and apart from each
/// other: neighbours are joined, also across gaps unless these add up to too much, and long ones are cut into
/// pieces of about one size. Empty ranges are left out.
std::vector<ByteRange> plan_requests(std::span<const ByteRange> ranges, const RangeRules& rules);

/// The first of `ranges`, which have at most `most` bytes together; the last one may be cut.
std::vector<ByteRange> first_bytes(std::span<const ByteRange> ranges, std::uint64_t most);

}  // namespace torch_distinput
