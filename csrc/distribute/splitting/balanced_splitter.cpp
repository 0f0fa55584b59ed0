// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

#include "distribute/splitting/element_splitter.h"

namespace torch_distinput {
namespace {

class BalancedSplitter final : public ElementSplitter {
 public:
  BalancedSplitter(std::int64_t num_replicas, std::vector<double> weights)
      : parts_(num_replicas), weights_(std::move(weights)) {}

  std::int64_t parts() const override { return parts_; }
  std::vector<std::int64_t> shares_for_all(std::int64_t rows, std::int64_t count) const override;
  std::string describe() const override;

 protected:
  std::vector<std::int64_t> cut(std::int64_t rows) const override {
    return weights_.empty() ? even_shares(rows, parts_) : weighted(rows);
  }

 private:
  std::vector<std::int64_t> weighted(std::int64_t rows) const;

  std::int64_t parts_;
  std::vector<double> weights_;
};

std::vector<std::int64_t> BalancedSplitter::weighted(std::int64_t rows) const {
  const double total = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::vector<std::int64_t> sizes;
  std::vector<double> remainders;
  for (const double weight : weights_) {
    const double exact = static_cast<double>(rows) * weight / total;
    sizes.push_back(static_cast<std::int64_t>(std::floor(exact)));
    remainders.push_back(exact - std::floor(exact));
  }
  std::vector<std::size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
  std::int64_t left = rows - std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  for (const std::size_t replica : order) {
    if (left-- <= 0) break;
    ++sizes[replica];
  }
  return sizes;
}

/// A row for each, and what is left by weight.
std::vector<std::int64_t> BalancedSplitter::shares_for_all(std::int64_t rows, std::int64_t count) const {
  if (weights_.empty()) return even_shares(rows, count);
  std::vector<std::int64_t> sizes = weighted(rows - count);
  for (auto& size : sizes) ++size;
  return sizes;
}

/// All digits that distinguish `number` from other numbers, because splitters with equal texts share
/// positions.
std::string exact(double number) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  return {digits.data(), end};
}

std::string BalancedSplitter::describe() const {
  std::ostringstream text;
  text << "balanced(num_replicas=" << parts_;
  const char* separator = ", weights=[";
  for (const double weight : weights_) text << std::exchange(separator, ", ") << exact(weight);
  text << (weights_.empty() ? ")" : "])");
  return text.str();
}

}  // namespace

std::vector<std::int64_t> even_shares(std::int64_t rows, std::int64_t count) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(count), rows / count);
  std::for_each_n(sizes.begin(), rows % count, [](std::int64_t& size) { ++size; });
  return sizes;
}

SplitterPtr balanced_splitter(std::int64_t num_replicas, std::vector<double> weights) {
  return std::make_shared<BalancedSplitter>(num_replicas, std::move(weights));
}

}  // namespace torch_distinput
