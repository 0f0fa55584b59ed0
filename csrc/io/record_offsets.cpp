// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/record_offsets.h"

#include <limits>
#include <stdexcept>
#include <utility>

namespace torch_distinput {

void RecordOffsets::add(std::uint64_t offset) {
  if (narrow()) {
    if (size_ % kGroup == 0) bases_.push_back(offset);
    const std::uint64_t distance = offset - bases_.back();
    if (distance <= std::numeric_limits<std::uint32_t>::max()) {
      distances_.push_back(static_cast<std::uint32_t>(distance));
      ++size_;
      return;
    }
    widen();
  }
  bases_.push_back(offset);
  ++size_;
}

void RecordOffsets::widen() {
  std::vector<std::uint64_t> offsets;
  offsets.reserve(size_ + 1);
  for (std::uint64_t i = 0; i < size_; ++i) offsets.push_back((*this)[i]);
  bases_ = std::move(offsets);
  distances_ = {};
}

RecordOffsets::RecordOffsets(std::uint64_t size, std::vector<std::uint64_t> bases,
                             std::vector<std::uint32_t> distances)
    : size_(size), bases_(std::move(bases)), distances_(std::move(distances)) {
  const std::uint64_t groups = size / kGroup + (size % kGroup != 0 ? 1 : 0);
  const bool fits = narrow() ? bases_.size() == groups : distances_.empty() && bases_.size() == size;
  if (!fits) throw std::invalid_argument("record offsets: the numbers of bases and distances do not match");
  std::uint64_t before = 0;
  for (std::uint64_t i = 0; i < size; ++i) {
    const std::uint64_t offset = (*this)[i];
    if (offset < before || (narrow() && offset < bases_[i / kGroup])) {
      throw std::invalid_argument("record offsets: the offsets must ascend");
    }
    before = offset;
  }
}

}  // namespace torch_distinput
