// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/chosen_order.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace torch_distinput {
namespace {

constexpr std::int64_t kLeastStride = 256;
constexpr std::int64_t kStrideOfAnInput = 8;

template <class Choice>
bool fits(std::size_t inputs) {
  return inputs - 1 <= std::numeric_limits<Choice>::max();
}

}  // namespace

ChosenOrder::ChosenOrder(std::size_t inputs)
    : choices_(choices_for(inputs)),
      stride_(std::max(kLeastStride, kStrideOfAnInput * static_cast<std::int64_t>(inputs))),
      chosen_(inputs, 0) {}

ChosenOrder::Choices ChosenOrder::choices_for(std::size_t inputs) {
  if (fits<std::uint8_t>(inputs)) return std::vector<std::uint8_t>();
  if (fits<std::uint16_t>(inputs)) return std::vector<std::uint16_t>();
  return std::vector<std::uint32_t>();
}

void ChosenOrder::push(std::size_t input) {
  if (size_ % stride_ == 0) before_strides_.insert(before_strides_.end(), chosen_.begin(), chosen_.end());
  std::visit(
      [input]<class Choice>(std::vector<Choice>& choices) { choices.push_back(static_cast<Choice>(input)); },
      choices_);
  ++chosen_[input];
  ++size_;
}

std::span<const std::int64_t> ChosenOrder::counts_before_stride(std::int64_t position) const {
  const auto stride = static_cast<std::size_t>(position / stride_);
  return std::span(before_strides_).subspan(stride * chosen_.size(), chosen_.size());
}

InputOrder::Place ChosenOrder::locate(std::int64_t position) const {
  return std::visit(
      [&](const auto& choices) -> Place {
        const auto here = choices.begin() + position;
        const std::int64_t before = counts_before_stride(position)[*here];
        return {*here, before + std::count(choices.begin() + stride_of(position), here, *here)};
      },
      choices_);
}

void ChosenOrder::locate_run(std::int64_t position, std::int64_t count, const Take& take) const {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(count));
  std::iota(offsets.begin(), offsets.end(), 0);
  std::visit(
      [&](const auto& choices) {
        const auto choice_at = [first = choices.begin() + position](std::int64_t offset) {
          return first[offset];
        };
        std::ranges::stable_sort(offsets, {}, choice_at);
        for (auto begin = offsets.begin(); begin != offsets.end();) {
          const auto end = std::find_if(begin, offsets.end(), [&](std::int64_t offset) {
            return choice_at(offset) != choice_at(*begin);
          });
          const Place first = locate(position + *begin);
          take(first.input, first.number, {begin, end});
          begin = end;
        }
      },
      choices_);
}

std::vector<std::int64_t> ChosenOrder::counts(std::int64_t position) const {
  if (position == size_) return chosen_;
  const std::span<const std::int64_t> before = counts_before_stride(position);
  std::vector<std::int64_t> counts(before.begin(), before.end());
  std::visit(
      [&](const auto& choices) {
        std::for_each(choices.begin() + stride_of(position), choices.begin() + position,
                      [&](auto choice) { ++counts[choice]; });
      },
      choices_);
  return counts;
}

}  // namespace torch_distinput
