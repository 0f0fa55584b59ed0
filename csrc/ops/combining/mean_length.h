// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "torch_distinput/node.h"

namespace torch_distinput {

/// The mean lengths of inputs, each of which is found once. Safe from any thread.
class MeanLengths {
 public:
  /// That of input `input`, which is `node`; the rest as in `mean_length`.
  double of(std::size_t input, const Node& node, const std::optional<std::string>& key, std::string_view op);

 private:
  std::mutex mutex_;
  std::map<std::size_t, double> found_;
};

/// The mean number of rows along dim 0 of a leaf of the elements of `node`: that in entry `key`, or the only
/// one. Of all elements, or of 2^18 of them at equal distances, in an order that does not depend on seed and
/// epoch; 1 where there are none. Throws c10::ValueError naming `op` where lengths are not known without
/// reading, and where all are 0.
double mean_length(const Node& node, const std::optional<std::string>& key, std::string_view op);

}  // namespace torch_distinput
