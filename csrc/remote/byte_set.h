// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "remote/http.h"

namespace torch_distinput {

/// A set of bytes of one object.
class ByteSet {
 public:
  void add(const ByteRange& range);
  void remove(const ByteRange& range);
  bool empty() const noexcept { return ends_.empty(); }
  /// The bytes as the longest ranges there are, in order.
  std::vector<ByteRange> ranges() const;

 private:
  std::map<std::uint64_t, std::uint64_t> ends_;  ///< of the ranges, by where they begin; they do not touch
};

}  // namespace torch_distinput
