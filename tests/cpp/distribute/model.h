// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "distribute/splitting/part.h"
#include "support/numbers.h"
#include "torch_distinput/strategy.h"

/// \file
/// A model of distributed steps that uses lists of row numbers instead of arithmetic.

namespace torch_distinput::model {

using Rows = std::vector<std::int64_t>;

enum class Kind { kLegacy, kV2, kBalanced, kWhole };

struct Case {
  std::vector<std::int64_t> elements = {};  ///< rows of each global batch
  Kind kind = Kind::kLegacy;
  std::int64_t replicas = 2;
  std::int64_t batch = -1;  ///< rows of a full batch, -1: not inferable
  std::vector<double> weights = {};
  Tail tail = Tail::kZeroRows;
};

struct Step {
  std::vector<Rows> parts = {};
  std::vector<std::int64_t> valid = {};
  std::vector<bool> present = {};
};

inline std::int64_t full_batch(const Case& c) {
  if (c.batch >= 0) return c.batch;
  return c.elements.empty() ? 0 : c.elements.front();
}

inline std::vector<std::int64_t> v2_sizes(const Case& c) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t g = 0; g < c.replicas; ++g)
    sizes.push_back(c.batch / c.replicas + (g < c.batch % c.replicas ? 1 : 0));
  return sizes;
}

inline Rows cut(const Rows& rows, std::int64_t begin, std::int64_t end) {
  const auto n = std::ssize(rows);
  return Rows(rows.begin() + std::min(begin, n), rows.begin() + std::min(std::max(begin, end), n));
}

inline std::vector<std::int64_t> weighted_sizes(std::int64_t n, const std::vector<double>& weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<std::int64_t> sizes;
  for (double w : weights)
    sizes.push_back(static_cast<std::int64_t>(std::floor(static_cast<double>(n) * w / total)));
  if (weights.empty()) return sizes;
  std::vector<bool> topped(weights.size());
  while (std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) < n) {
    std::size_t best = weights.size();
    double most = -1;
    for (std::size_t g = 0; g < weights.size(); ++g) {
      const double exact = static_cast<double>(n) * weights[g] / total;
      if (!topped[g] && exact - std::floor(exact) > most) {
        most = exact - std::floor(exact);
        best = g;
      }
    }
    topped[best] = true;
    ++sizes[best];
  }
  return sizes;
}

/// The parts of one batch under a splitter that cuts each batch by itself.
inline std::vector<Rows> cut_batch(const Case& c, const Rows& rows) {
  const std::int64_t n = std::ssize(rows);
  std::vector<Rows> parts;
  std::int64_t begin = 0;
  for (std::int64_t g = 0; g < c.replicas; ++g) {
    if (c.kind == Kind::kWhole) {
      parts.push_back(rows);
    } else if (c.kind == Kind::kLegacy) {
      const std::int64_t interval = (n + c.replicas - 1) / c.replicas;
      parts.push_back(cut(rows, g * interval, (g + 1) * interval));
    } else if (c.weights.empty()) {
      const std::int64_t start = g * (n / c.replicas) + std::min(g, n % c.replicas);
      parts.push_back(cut(rows, start, (g + 1) * (n / c.replicas) + std::min(g + 1, n % c.replicas)));
    } else {
      const std::int64_t size = weighted_sizes(n, c.weights)[static_cast<std::size_t>(g)];
      parts.push_back(cut(rows, begin, begin + size));
      begin += size;
    }
  }
  return parts;
}

inline std::vector<Rows> batches(const Case& c) {
  std::vector<Rows> all;
  std::int64_t row = 0;
  for (const std::int64_t n : c.elements) {
    all.push_back(numbers(row, row + n));
    row += n;
  }
  return all;
}

/// All parts of the epoch, in order.
inline std::vector<Rows> parts(const Case& c) {
  std::vector<Rows> stream;
  if (c.kind != Kind::kV2) {
    for (const Rows& batch : batches(c)) {
      for (Rows& part : cut_batch(c, batch)) stream.push_back(part);
    }
    return stream;
  }
  const Rows rows = numbers(0, std::accumulate(c.elements.begin(), c.elements.end(), std::int64_t{0}));
  std::int64_t at = 0;
  const auto sizes = v2_sizes(c);
  for (std::size_t k = 0;; k = (k + 1) % sizes.size()) {
    const Rows part = cut(rows, at, at + sizes[k]);
    if (sizes[k] > 0 && part.empty()) break;
    stream.push_back(part);
    at += std::ssize(part);
    if (std::ssize(part) < sizes[k]) break;
  }
  return stream;
}

inline std::int64_t row_count(const Step& step) {
  return std::accumulate(step.parts.begin(), step.parts.end(), std::int64_t{0},
                         [](std::int64_t sum, const Rows& part) { return sum + std::ssize(part); });
}

/// Steps before the tail rule.
inline std::vector<Step> raw_steps(const Case& c) {
  const auto stream = parts(c);
  const auto width = static_cast<std::size_t>(c.replicas);
  std::vector<Step> steps;
  for (std::size_t first = 0; first < stream.size(); first += width) {
    Step step;
    for (std::size_t k = first; k < first + width; ++k) {
      step.present.push_back(k < stream.size());
      step.parts.push_back(k < stream.size() ? stream[k] : Rows{});
    }
    steps.push_back(step);
  }
  while (!steps.empty() && row_count(steps.back()) == 0) steps.pop_back();
  return steps;
}

inline std::vector<std::int64_t> full_shares(const Case& c) {
  if (c.kind == Kind::kV2) return v2_sizes(c);
  Rows rows(static_cast<std::size_t>(full_batch(c)));
  std::vector<std::int64_t> shares;
  for (const Rows& part : cut_batch(c, rows)) shares.push_back(std::ssize(part));
  return shares;
}

inline void count_valid(Step& step) {
  step.valid.clear();
  for (const Rows& part : step.parts) step.valid.push_back(std::ssize(part));
}

inline void pad(Step& step, const std::vector<std::int64_t>& shares) {
  std::int64_t last = -1;
  for (const Rows& part : step.parts) last = part.empty() ? last : part.back();
  for (std::size_t g = 0; g < step.parts.size(); ++g) {
    Rows& part = step.parts[g];
    const std::int64_t own = part.empty() ? last : part.back();
    while (std::ssize(part) < shares[g]) part.push_back(own);
  }
}

inline void fill_from_start(Step& step, const std::vector<std::int64_t>& shares, std::int64_t epoch_rows) {
  Rows rows;
  for (const Rows& part : step.parts) rows.insert(rows.end(), part.begin(), part.end());
  const std::int64_t full = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  for (std::int64_t i = 0; std::ssize(rows) < full; ++i) rows.push_back(i % epoch_rows);
  std::int64_t begin = 0;
  for (std::size_t g = 0; g < step.parts.size(); ++g) {
    step.parts[g] = cut(rows, begin, begin + shares[g]);
    step.present[g] = true;
    begin += shares[g];
  }
}

inline bool lacks_rows(const Step& step) {
  return std::any_of(step.parts.begin(), step.parts.end(), [](const Rows& part) { return part.empty(); });
}

/// The last step together with the one before it, if there is a row for each replica and the last one lacks
/// some.
inline void merge_last(const Case& c, std::vector<Step>& raw) {
  if (raw.empty() || !lacks_rows(raw.back())) return;
  const std::size_t first = raw.size() - std::min<std::size_t>(raw.size(), 2);
  Rows rows;
  for (std::size_t s = first; s < raw.size(); ++s) {
    for (const Rows& part : raw[s].parts) rows.insert(rows.end(), part.begin(), part.end());
  }
  if (std::ssize(rows) < c.replicas) return;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(c.replicas), 1);
  const std::int64_t others = std::ssize(rows) - c.replicas;
  const auto by_weight = weighted_sizes(others, c.weights);
  for (std::int64_t g = 0; g < c.replicas; ++g) {
    const auto at = static_cast<std::size_t>(g);
    sizes[at] += c.weights.empty() ? others / c.replicas + (g < others % c.replicas ? 1 : 0) : by_weight[at];
  }
  Step merged{.present = std::vector<bool>(sizes.size(), true)};
  std::int64_t begin = 0;
  for (const std::int64_t size : sizes) {
    merged.parts.push_back(cut(rows, begin, begin + size));
    begin += size;
  }
  raw.resize(first);
  raw.push_back(merged);
}

/// The steps that are delivered, dummies included.
inline std::vector<Step> steps(const Case& c) {
  const std::int64_t epoch_rows = std::accumulate(c.elements.begin(), c.elements.end(), std::int64_t{0});
  const auto shares = full_shares(c);
  const std::int64_t full = std::accumulate(shares.begin(), shares.end(), std::int64_t{0});
  std::vector<Step> delivered;
  auto raw = raw_steps(c);
  if (c.tail == Tail::kMerge) merge_last(c, raw);
  for (std::size_t i = 0; i < raw.size(); ++i) {
    Step& step = raw[i];
    const bool last = i + 1 == raw.size();
    const bool is_short = row_count(step) < full;
    if (c.tail == Tail::kDrop && last && is_short) break;
    if (c.tail == Tail::kUntilFirst && lacks_rows(step)) break;
    if (c.tail == Tail::kRepeat && last && is_short) fill_from_start(step, shares, epoch_rows);
    count_valid(step);
    if (c.tail == Tail::kPadded && is_short && row_count(step) > 0) pad(step, shares);
    delivered.push_back(step);
  }
  return delivered;
}

inline std::string str(const Case& c) {
  std::string text = "kind " + std::to_string(static_cast<int>(c.kind)) + " replicas " +
                     std::to_string(c.replicas) + " batch " + std::to_string(c.batch) + " tail " +
                     std::to_string(static_cast<int>(c.tail)) + " weights " +
                     std::to_string(c.weights.size()) + " elements";
  for (const std::int64_t n : c.elements) text += " " + std::to_string(n);
  return text;
}

/// Random batches: of `batch(B)` in some rounds, each of which may end with a short one, or of any sizes.
inline Case random_case(std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  Case c;
  c.kind = static_cast<Kind>(draw(0, 3));
  c.replicas = c.kind == Kind::kWhole ? 1 : draw(1, 5);
  c.tail = static_cast<Tail>(draw(0, 5));
  const std::int64_t batch = draw(1, 7);
  if (c.kind == Kind::kV2 || draw(0, 1) == 0) c.batch = batch;
  if (c.kind == Kind::kBalanced && draw(0, 1) == 0) {
    for (std::int64_t g = 0; g < c.replicas; ++g) c.weights.push_back(static_cast<double>(draw(1, 4)));
  }
  const bool free_sizes = c.batch < 0 && draw(0, 1) == 0;
  for (std::int64_t round = draw(1, 3); round > 0; --round) {
    for (std::int64_t n = draw(0, 17); n > 0; n -= batch)
      c.elements.push_back(free_sizes ? draw(0, 6) : std::min(n, batch));
  }
  return c;
}

}  // namespace torch_distinput::model
