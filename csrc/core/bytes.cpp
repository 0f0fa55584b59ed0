// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>

#include <ATen/ops/empty.h>

#include "torch_distinput/element.h"

namespace torch_distinput {

Bytes Bytes::single(std::string_view string, bool utf8) {
  at::Tensor values = at::empty({static_cast<std::int64_t>(string.size())}, at::kByte);
  if (!string.empty()) std::memcpy(values.mutable_data_ptr(), string.data(), string.size());
  return {std::move(values), {}, {}, utf8};
}

Bytes Bytes::column(std::span<const std::string_view> strings, bool utf8) {
  const auto count = static_cast<std::int64_t>(strings.size());
  at::Tensor offsets = at::empty({count + 1}, at::kLong);
  auto* const ends = static_cast<std::int64_t*>(offsets.mutable_data_ptr());
  ends[0] = 0;
  for (std::int64_t i = 0; i < count; ++i)
    ends[i + 1] = ends[i] + static_cast<std::int64_t>(strings[static_cast<std::size_t>(i)].size());
  at::Tensor values = at::empty({ends[count]}, at::kByte);
  auto* to = static_cast<char*>(values.mutable_data_ptr());
  for (const std::string_view string : strings) to = std::copy(string.begin(), string.end(), to);
  return {std::move(values), std::move(offsets), {count}, utf8};
}

std::int64_t Bytes::count() const { return offsets.defined() ? offsets.size(0) - 1 : 1; }

std::string_view Bytes::operator[](std::int64_t index) const& {
  const auto* const data = static_cast<const char*>(values.const_data_ptr());
  if (!offsets.defined()) return {data, values.nbytes()};
  const auto* const bounds = static_cast<const std::int64_t*>(offsets.const_data_ptr()) + index;
  return {data + bounds[0], static_cast<std::size_t>(bounds[1] - bounds[0])};
}

}  // namespace torch_distinput
