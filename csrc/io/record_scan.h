// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace torch_distinput {

/// What was found at the start of a piece of a file.
struct RecordScan {
  /// The result of the scan.
  enum class Found {
    kRecord,   ///< a record of `bytes` bytes, framing included
    kMore,     ///< an incomplete record: scan again with a piece of at least `bytes` bytes
    kEnd,      ///< no further record
    kDamaged,  ///< bytes that are not a record; `problem` says why
  };
  Found found;
  std::uint64_t bytes = 0;   ///< for kRecord and kMore
  std::string problem = {};  ///< for kDamaged
};

}  // namespace torch_distinput
