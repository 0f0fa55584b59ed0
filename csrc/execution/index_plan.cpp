// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/index_plan.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

namespace torch_distinput {
namespace {

constexpr std::int64_t kStride = 256;

class SlicePlan final : public IndexPlan {
 public:
  SlicePlan(PlanPtr input, std::int64_t begin, std::int64_t size)
      : IndexPlan(std::move(input)), begin_(begin), size_(size) {}

  std::int64_t size() const override { return size_; }
  std::int64_t rows_before(std::int64_t position) const override {
    return input().rows_before(begin_ + position) - input().rows_before(begin_);
  }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input().sampled(begin_ + position);
  }
  std::vector<std::int64_t> block_starts() const override {
    if (input().size() == kEndless) return Plan::block_starts();
    std::vector<std::int64_t> starts = input().block_starts();
    for (std::int64_t& start : starts) start = std::clamp<std::int64_t>(start - begin_, 0, size_);
    starts.erase(std::unique(starts.begin(), starts.end()), starts.end());
    return starts;
  }

 private:
  void translate(std::span<std::int64_t> positions) const override {
    for (std::int64_t& position : positions) position += begin_;
  }

  std::int64_t begin_;
  std::int64_t size_;
};

}  // namespace

std::int64_t RowTotals::before(std::int64_t position, const SumRange& sum) const {
  const auto stride = static_cast<std::size_t>(position / kStride);
  std::int64_t total = 0;
  {
    const std::lock_guard lock(mutex_);
    while (totals_.size() <= stride) {
      const auto begin = static_cast<std::int64_t>(totals_.size() - 1) * kStride;
      totals_.push_back(totals_.back() + sum(begin, begin + kStride));
    }
    total = totals_[stride];
  }
  return total + sum(position / kStride * kStride, position);
}

IndexPlan::IndexPlan(PlanPtr input) : input_(std::move(input)) {}

void IndexPlan::gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
                       std::span<const RowSink> sinks) const {
  translate(positions);
  input_->gather(positions, slots, sinks);
}

void IndexPlan::gather_batches(std::span<std::int64_t> positions, std::span<const BatchRows> batches) const {
  translate(positions);
  input_->gather_batches(positions, batches);
}

std::string IndexPlan::origin(std::int64_t position) const {
  translate({&position, 1});
  return input_->origin(position);
}

void IndexPlan::source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const {
  translate(positions);
  input_->source_rows(positions, rows);
}

void IndexPlan::source_rows_of(std::span<const Segment> segments, std::vector<std::int64_t>& rows) const {
  input_->source_rows_of(translated(segments), rows);
}

std::vector<Element> IndexPlan::fetch(std::span<std::int64_t> positions) const {
  translate(positions);
  return input_->fetch(positions);
}

Element IndexPlan::fetch_batch(std::span<std::int64_t> positions) const {
  translate(positions);
  return input_->fetch_batch(positions);
}

std::vector<Element> IndexPlan::fetch_batches(std::span<std::int64_t> positions,
                                              std::span<const std::size_t> counts) const {
  translate(positions);
  return input_->fetch_batches(positions, counts);
}

Element IndexPlan::fetch_ragged(std::span<std::int64_t> positions) const {
  translate(positions);
  return as_ragged(*input_)->fetch_ragged(positions);
}

std::int64_t IndexPlan::rows(std::int64_t position) const {
  translate({&position, 1});
  return input_->rows(position);
}

std::int64_t IndexPlan::rows_before(std::int64_t position) const {
  return totals_.before(position, [this](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> positions(static_cast<std::size_t>(end - begin));
    std::iota(positions.begin(), positions.end(), begin);
    translate(positions);
    std::int64_t sum = 0;
    for (const std::int64_t element : positions) sum += input_->rows(element);
    return sum;
  });
}

Element IndexPlan::take_rows(std::span<const Segment> segments) const {
  return input_->take_rows(translated(segments));
}

void IndexPlan::lengths(std::size_t leaf, std::span<std::int64_t> positions) const {
  translate(positions);
  input_->lengths(leaf, positions);
}

void IndexPlan::gather_pieces(std::size_t leaf, c10::ScalarType dtype, std::span<const Segment> pieces,
                              std::span<char* const> to) const {
  input_->gather_pieces(leaf, dtype, translated(pieces), to);
}

void IndexPlan::will_read(std::span<std::int64_t> positions) const {
  translate(positions);
  input_->will_read(positions);
}

void IndexPlan::will_take(std::span<const Segment> segments) const {
  input_->will_take(translated(segments));
}

std::vector<Segment> IndexPlan::translated(std::span<const Segment> segments) const {
  std::vector<Segment> result(segments.begin(), segments.end());
  for (Segment& segment : result) translate({&segment.element, 1});
  return result;
}

PlanPtr slice_plan(PlanPtr input, std::int64_t begin, std::int64_t size) {
  return std::make_shared<SlicePlan>(std::move(input), begin, size);
}

}  // namespace torch_distinput
