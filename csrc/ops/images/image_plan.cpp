// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/images/image_plan.h"

#include <algorithm>
#include <utility>

#include <ATen/ops/empty.h>

#include "kernels/dense.h"
#include "kernels/images/planes.h"
#include "kernels/row_stack.h"

namespace torch_distinput {
namespace {

/// The layout of leaves of type `spec`; nullopt if they are not dense or of unknown shape.
std::optional<LeafLayout> static_layout(const LeafSpec& spec) {
  const auto* const dense = std::get_if<TensorSpec>(&spec);
  if (dense == nullptr || !dense->shape) return std::nullopt;
  auto bytes = static_cast<std::int64_t>(c10::elementSize(dense->dtype));
  for (const std::int64_t dim : *dense->shape) {
    if (dim == kUnknownDim) return std::nullopt;
    bytes *= dim;
  }
  return LeafLayout{dense->dtype, *dense->shape, bytes};
}

/// The layout of rows of type `spec`; nullopt if a leaf has none.
std::optional<RowLayout> static_layout(const ElementSpec& spec) {
  RowLayout layout{spec.structure, {}};
  for (const LeafSpec& leaf : spec.leaves) {
    std::optional<LeafLayout> one = static_layout(leaf);
    if (!one) return std::nullopt;
    layout.leaves.push_back(std::move(*one));
  }
  return layout;
}

class ImagePlan final : public Plan {
 public:
  ImagePlan(PlanPtr input, ImageProgram program, const ElementSpec& spec, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        program_(std::move(program)),
        layout_(static_layout(spec)),
        image_(static_layout(spec.leaves[program_.leaf()])),
        pool_(std::move(pool)) {}

  std::int64_t size() const override { return input_->size(); }
  PlanTraits traits() const override {
    PlanTraits traits = input_->traits();
    traits.together = 1;  // to decode an image takes far longer than to find it
    return traits;
  }
  std::int64_t least_bytes() const override {
    if (layout_) return Plan::least_bytes();
    return image_ ? image_->bytes : 0;
  }
  std::string origin(std::int64_t position) const override { return input_->origin(position); }
  const RowLayout* layout() const override { return layout_ ? &*layout_ : nullptr; }

  void gather(std::span<std::int64_t> positions, std::span<const std::int64_t> slots,
              std::span<const RowSink> sinks) const override {
    for_each(positions, [&](Element& element, std::size_t row, std::int64_t position) {
      const std::size_t slot = slots.empty() ? row : static_cast<std::size_t>(slots[row]);
      const Pixels pixels = program_.run(element, position, [&] { return origin(position); }, *pool_);
      for (std::size_t leaf = 0; leaf < sinks.size(); ++leaf) {
        char* const to = sinks[leaf].data + static_cast<std::int64_t>(slot) * sinks[leaf].row_bytes;
        if (leaf == program_.leaf())
          store_pixels(pixels, program_.output().layout, reinterpret_cast<std::uint8_t*>(to));
        else
          copy_items(dense_leaf(element, leaf, "decode_image", "copy"), to);
      }
    });
  }

  std::vector<Element> fetch(std::span<std::int64_t> positions) const override {
    std::vector<Element> result;
    result.reserve(positions.size());
    for_each(positions, [&](Element& element, std::size_t, std::int64_t position) {
      apply_program(program_, element, position, [&] { return origin(position); }, *pool_);
      result.push_back(std::move(element));
    });
    return result;
  }

  /// Images of one size are written straight into the batch, whatever the other leaves are.
  bool fetches_batches() const override { return !layout_ && image_; }
  Element fetch_batch(std::span<std::int64_t> positions) const override {
    BatchBuffer images = make_batch({Structure::leaf(), {*image_}}, std::ssize(positions), *pool_);
    const RowSink& sink = images.sinks.front();
    const at::Tensor elsewhere = at::empty({0}, at::kByte);
    RowStack others(std::ssize(positions), *pool_, "batch");
    for_each(positions, [&](Element& element, std::size_t row, std::int64_t position) {
      const Pixels pixels = program_.run(element, position, [&] { return origin(position); }, *pool_);
      char* const to = sink.data + static_cast<std::int64_t>(row) * sink.row_bytes;
      store_pixels(pixels, program_.output().layout, reinterpret_cast<std::uint8_t*>(to));
      element.leaves()[program_.leaf()] = elsewhere;
      others.add(std::move(element));
    });
    Element batch = others.finish();
    batch.leaves()[program_.leaf()] = std::move(images.element.leaves().front());
    return batch;
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
  /// Calls `use(element, row, position)` for each position in order. Few elements are held at a time, since
  /// images are large.
  template <class Use>
  void for_each(std::span<std::int64_t> positions, Use use) const {
    constexpr std::size_t kTogether = 16;
    for (std::size_t begin = 0; begin < positions.size(); begin += kTogether) {
      const auto some = positions.subspan(begin, std::min(kTogether, positions.size() - begin));
      const std::vector<std::int64_t> numbers(some.begin(), some.end());
      std::vector<Element> elements = input_->fetch(some);
      for (std::size_t i = 0; i < elements.size(); ++i) use(elements[i], begin + i, numbers[i]);
    }
  }

  PlanPtr input_;
  ImageProgram program_;
  std::optional<RowLayout> layout_;
  std::optional<LeafLayout> image_;  ///< of the image alone
  std::shared_ptr<BufferPool> pool_;
};

}  // namespace

PlanPtr image_plan(PlanPtr input, ImageProgram program, const ElementSpec& spec,
                   std::shared_ptr<BufferPool> pool) {
  return std::make_shared<ImagePlan>(std::move(input), std::move(program), spec, std::move(pool));
}

void apply_program(const ImageProgram& program, Element& element, std::int64_t row, const RowOrigin& origin,
                   BufferPool& pool) {
  const Pixels pixels = program.run(element, row, origin, pool);
  ImageType type = program.output();
  type.dims = {pixels.height, pixels.width};
  at::Tensor image = pooled_tensor(type.tensor_dims(), at::kByte, pool);
  store_pixels(pixels, type.layout, static_cast<std::uint8_t*>(image.mutable_data_ptr()));
  element.leaves()[program.leaf()] = std::move(image);
}

}  // namespace torch_distinput
