// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/images/image_program.h"

#include <span>
#include <utility>

#include <ATen/core/Tensor.h>

#include "core/names.h"
#include "kernels/dense.h"
#include "kernels/host_memory.h"
#include "kernels/images/planes.h"
#include "runtime/mix_keys.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr std::size_t kImageRank = 3;

bool is_channels(std::int64_t size) { return size == 1 || size == 3 || size == 4; }

}  // namespace

Dims ImageType::tensor_dims() const {
  if (layout == ImageLayout::kNchw) return {channels, dims.height, dims.width};
  return {dims.height, dims.width, channels};
}

std::optional<ImageType> image_type(const Dims& dims) {
  if (dims.size() != kImageRank) return std::nullopt;
  if (is_channels(dims[0])) return ImageType{ImageLayout::kNchw, dims[0], {dims[1], dims[2]}};
  if (is_channels(dims[2])) return ImageType{ImageLayout::kNhwc, dims[2], {dims[0], dims[1]}};
  return std::nullopt;
}

ImageProgram::ImageProgram(std::size_t leaf, std::optional<ImageType> input, std::vector<Step> steps,
                           Following following)
    : leaf_(leaf),
      input_(input),
      output_(input.value_or(ImageType{})),
      steps_(std::move(steps)),
      following_(std::move(following)) {
  for (const Step& one : steps_) {
    if (const auto* decode = std::get_if<DecodeImage>(&one.step))
      output_ = {decode->layout, 3, {}};
    else
      output_.dims = dims_after(one.step, output_.dims);
  }
}

ImageSource ImageProgram::source(const Element& element) const {
  const Leaf& leaf = element.leaves()[leaf_];
  ImageSource source;
  if (!input_) {
    const auto& bytes = std::get<Bytes>(leaf);
    source.encoded = bytes[0];
    const auto& decode = std::get<DecodeImage>(steps_.front().step);
    source.head = read_head(source.encoded, decode.max_pixels);
    source.reducing_gap = decode.reducing_gap;
    return source;
  }
  const auto& image = std::get<at::Tensor>(leaf);
  const bool planes = input_->layout == ImageLayout::kNchw;
  if (image.size(planes ? 0 : 2) != input_->channels)
    throw ImageError("the image has another number of channels than " + std::to_string(input_->channels));
  const Extent extent{image.size(planes ? 2 : 1), image.size(planes ? 1 : 0)};
  if (extent.width < 1 || extent.height < 1) throw ImageError("the image has no pixels");
  const ReadGuard guard(image);
  if (image.is_contiguous()) {
    source.pixels = load_pixels(reinterpret_cast<const std::uint8_t*>(guard.data()), input_->layout,
                                input_->channels, extent);
  } else {
    const Block items = host_pool()->acquire(image.nbytes());
    copy_items(image, static_cast<char*>(items.data()));
    source.pixels =
        load_pixels(static_cast<const std::uint8_t*>(items.data()), input_->layout, input_->channels, extent);
  }
  return source;
}

Pixels ImageProgram::run(Element& element, std::int64_t row, const RowOrigin& origin,
                         BufferPool& pool) const {
  const char* op = step_name(steps_.front().step);
  std::size_t leaf = leaf_;
  try {
    const ImageSource image = source(element);
    std::vector<Edit> edits;
    Extent extent = image.extent();
    Extent followed = extent;        // before the first step that masks and boxes follow
    std::size_t first_followed = 0;  // its first edit
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (i == following_.from) {
        followed = extent;
        first_followed = edits.size();
      }
      op = step_name(steps_[i].step);
      RowDraws draws(mix_keys(steps_[i].key, static_cast<std::uint64_t>(row)));
      const std::size_t before = edits.size();
      draw_edits(steps_[i].step, extent, draws, edits);
      for (std::size_t edit = before; edit < edits.size(); ++edit) extent = extent_after(edits[edit], extent);
    }
    op = step_name(steps_.front().step);
    Pixels pixels = edited(image, edits);
    op = step_name(steps_[following_.from].step);
    const std::span<const Edit> to_follow = std::span<const Edit>(edits).subspan(first_followed);
    std::vector<at::Tensor> targets;
    for (const std::size_t mask : following_.leaves.masks) {
      leaf = mask;
      targets.push_back(edited_mask(element.leaves()[mask], followed, to_follow, pool));
    }
    for (const std::size_t boxes : following_.leaves.boxes) {
      leaf = boxes;
      targets.push_back(
          edited_boxes(element.leaves()[boxes], following_.leaves.box_format, followed, to_follow, pool));
    }
    auto next = targets.begin();
    for (const std::size_t mask : following_.leaves.masks) element.leaves()[mask] = std::move(*next++);
    for (const std::size_t boxes : following_.leaves.boxes) element.leaves()[boxes] = std::move(*next++);
    return pixels;
  } catch (const ImageError& error) {
    const std::string from = origin ? origin() : "";
    const std::string message = std::string(op) + ": row " + std::to_string(row) +
                                (from.empty() ? "" : " (" + from + ")") + ", " +
                                leaf_name(*element.structure(), leaf) + ": " + error.what() + ".";
    if (dynamic_cast<const EncodedImageError*>(&error) != nullptr)
      throw DamagedPictureError(message, error.what());
    throw InvalidArgumentError(message);
  }
}

}  // namespace torch_distinput
