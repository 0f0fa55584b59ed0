// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "core/names.h"

namespace torch_distinput {

std::string leaf_name(const Structure& structure, std::size_t leaf) {
  const auto path = structure.leaf_path(static_cast<std::int64_t>(leaf));
  return path.empty() ? "the element" : "leaf " + path;
}

std::string policy_name(AutoShardPolicy policy) {
  switch (policy) {
    case AutoShardPolicy::kOff:
      return "OFF";
    case AutoShardPolicy::kAuto:
      return "AUTO";
    case AutoShardPolicy::kFile:
      return "FILE";
    case AutoShardPolicy::kData:
      return "DATA";
    case AutoShardPolicy::kHint:
      return "HINT";
    case AutoShardPolicy::kStreams:
      return "STREAMS";
  }
  return "?";
}

}  // namespace torch_distinput
