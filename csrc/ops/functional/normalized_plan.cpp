// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/functional/normalized_plan.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/rows.h"

namespace torch_distinput::ops {
namespace {

/// Rows are read in parts of about this many bytes, which are still in the caches when they become numbers.
constexpr std::int64_t kPartBytes = std::int64_t{1} << 18;

class NormalizedPlan final : public Plan {
 public:
  NormalizedPlan(PlanPtr input, ImageNormalization normalization, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        normalization_(std::move(normalization)),
        layout_(*input_->layout()),
        pool_(std::move(pool)) {
    std::int64_t row_bytes = 0;
    for (LeafLayout& leaf : layout_.leaves) {
      row_bytes += leaf.bytes;
      channels_.push_back(unpack_layout(leaf));
    }
    rows_together_ = std::max<std::int64_t>(1, kPartBytes / std::max<std::int64_t>(1, row_bytes));
  }

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override { return input_->traits(); }
  std::string origin(std::int64_t position) const override { return input_->origin(position); }
  const RowLayout* layout() const override { return &layout_; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    const std::int64_t count = std::ssize(positions);
    const BatchBuffer part = make_batch(*input_->layout(), std::min(count, rows_together_), *pool_);
    for (std::int64_t begin = 0; begin < count; begin += rows_together_) {
      const std::int64_t rows = std::min(rows_together_, count - begin);
      input_->gather(positions.subspan(begin, rows), {}, part.sinks);
      for (std::int64_t row = 0; row < rows; ++row) {
        const std::int64_t slot = slots.empty() ? begin + row : slots[begin + row];
        for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf)
          write(leaf, part.sinks[leaf], row, sinks[leaf].data + slot * sinks[leaf].row_bytes);
      }
    }
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> rows;
    rows.reserve(positions.size());
    for (std::size_t i = 0; i < positions.size(); ++i) {
      const BatchBuffer one = make_batch(layout_, 1, *pool_);
      gather(positions.subspan(i, 1), {}, one.sinks);
      rows.push_back(take_row(one.element, 0, "normalize_images"));
    }
    return rows;
  }
  std::vector<const Plan*> inputs() const override { return {input_.get()}; }
  std::int64_t num_source_rows() const override { return input_->num_source_rows(); }
  void source_rows(std::span<std::int64_t> positions, std::vector<std::int64_t>& rows) const override {
    input_->source_rows(positions, rows);
  }
  std::vector<std::int64_t> block_starts() const override { return input_->block_starts(); }
  std::vector<std::int64_t> sampled(std::int64_t position) const override {
    return input_->sampled(position);
  }
  void will_read(std::span<std::int64_t> positions) const override { input_->will_read(positions); }

 private:
  /// Makes `leaf` what it is after the op. Returns the dim of its channels; nullopt for what is not an image.
  std::optional<ChannelDim> unpack_layout(LeafLayout& leaf) const {
    if (!normalization_.applies_to(leaf.dtype, leaf.shape.size())) return std::nullopt;
    const ImageScaling& scaling = normalization_.scaling;
    const ChannelDim from = find_channels(leaf.shape, scaling.channels(), "");
    leaf.shape = unpacked_dims(leaf.shape, from, scaling.layout);
    leaf.dtype = scaling.dtype;
    leaf.bytes *= static_cast<std::int64_t>(c10::elementSize(scaling.dtype));
    return from;
  }

  void write(std::size_t leaf, const RowSink& part, std::int64_t row, char* to) const {
    const LeafLayout& before = input_->layout()->leaves[leaf];
    const char* const from = part.data + row * part.row_bytes;
    if (channels_[leaf])
      unpack_images(reinterpret_cast<const std::uint8_t*>(from), before.shape, *channels_[leaf],
                    normalization_.scaling, to);
    else
      std::memcpy(to, from, static_cast<std::size_t>(before.bytes));
  }

  PlanPtr input_;
  ImageNormalization normalization_;
  RowLayout layout_;
  std::vector<std::optional<ChannelDim>> channels_;  ///< for each leaf
  std::int64_t rows_together_;
  std::shared_ptr<BufferPool> pool_;
};

}  // namespace

PlanPtr normalized_plan(PlanPtr input, ImageNormalization normalization, std::shared_ptr<BufferPool> pool) {
  return std::make_shared<NormalizedPlan>(std::move(input), std::move(normalization), std::move(pool));
}

}  // namespace torch_distinput::ops
