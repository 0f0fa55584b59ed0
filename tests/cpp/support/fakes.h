// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <ATen/ops/scalar_tensor.h>
#include <c10/util/Exception.h>

#include "torch_distinput/function.h"

/// Sources of int64 scalars for tests, which fail or count as asked.
namespace torch_distinput::fakes {

/// Row k is the scalar k; rows in `failing` throw. Counts the rows that it was asked for.
class Rows : public RowSource {
 public:
  explicit Rows(std::int64_t size, std::set<std::int64_t> failing = {}, bool runs_user_code = false)
      : size_(size), failing_(std::move(failing)), runs_user_code_(runs_user_code) {}

  std::int64_t size() const override { return size_; }
  std::vector<Element> rows(std::span<const std::int64_t> positions) const override {
    std::vector<Element> elements;
    for (const std::int64_t position : positions) {
      ++reads_;
      TORCH_CHECK_VALUE(!failing_.contains(position), "row ", position, " is bad");
      elements.emplace_back(at::scalar_tensor(position, at::kLong));
    }
    return elements;
  }
  bool runs_user_code() const override { return runs_user_code_; }

  /// Rows that were asked for so far.
  std::int64_t reads() const { return reads_; }

 private:
  std::int64_t size_;
  std::set<std::int64_t> failing_;
  bool runs_user_code_;
  mutable std::atomic<std::int64_t> reads_{0};
};

/// Yields `elements`, opened anew for each iterator.
class Generators : public GeneratorSource {
 public:
  explicit Generators(std::vector<Element> elements) : elements_(std::move(elements)) {}

  std::unique_ptr<Generator> open() const override {
    ++opened_;
    return std::make_unique<Run>(elements_);
  }
  /// How often it was opened.
  std::int64_t opened() const { return opened_; }

 private:
  class Run final : public Generator {
   public:
    explicit Run(std::vector<Element> elements) : elements_(std::move(elements)) {}
    std::optional<Element> next() override {
      if (next_ == elements_.size()) return std::nullopt;
      return elements_[next_++];
    }

   private:
    std::vector<Element> elements_;
    std::size_t next_ = 0;
  };

  std::vector<Element> elements_;
  mutable std::atomic<std::int64_t> opened_{0};
};

}  // namespace torch_distinput::fakes
