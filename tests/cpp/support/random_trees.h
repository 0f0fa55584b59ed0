// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <vector>

namespace torch_distinput {

using JoinTexts = std::function<std::string(const std::vector<std::string>& texts)>;

/// Reduces `texts` to one, as processes would that come in any order and join two to `most` texts at a time.
inline std::string reduce_at_random(std::vector<std::string> texts, std::size_t most, const JoinTexts& join,
                                    std::mt19937& random) {
  while (texts.size() > 1) {
    std::shuffle(texts.begin(), texts.end(), random);
    const std::size_t count = std::min(texts.size(), 2 + random() % (most - 1));
    const auto taken = texts.end() - static_cast<std::ptrdiff_t>(count);
    const std::string one = join({taken, texts.end()});
    texts.erase(taken, texts.end());
    texts.push_back(one);
  }
  return texts.front();
}

/// Reduces `texts` level by level, `fan_in` neighbours at a time.
inline std::string reduce_in_order(std::vector<std::string> texts, std::size_t fan_in,
                                   const JoinTexts& join) {
  while (texts.size() > 1) {
    std::vector<std::string> level;
    for (std::size_t i = 0; i < texts.size(); i += fan_in) {
      const auto first = texts.begin() + static_cast<std::ptrdiff_t>(i);
      level.push_back(join({first, first + static_cast<std::ptrdiff_t>(std::min(fan_in, texts.size() - i))}));
    }
    texts = std::move(level);
  }
  return texts.front();
}

}  // namespace torch_distinput
