// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "ops/records/npy.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace torch_distinput {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::int64_t kMostNpyItems = std::int64_t{1} << 50;

struct NpyType {
  std::string_view name;  ///< as in the head, without the byte order
  c10::ScalarType dtype;
};
constexpr std::array kNpyTypes{
    NpyType{"b1", at::kBool},         NpyType{"u1", at::kByte},          NpyType{"i1", at::kChar},
    NpyType{"i2", at::kShort},        NpyType{"i4", at::kInt},           NpyType{"i8", at::kLong},
    NpyType{"u2", at::kUInt16},       NpyType{"u4", at::kUInt32},        NpyType{"u8", at::kUInt64},
    NpyType{"f2", at::kHalf},         NpyType{"f4", at::kFloat},         NpyType{"f8", at::kDouble},
    NpyType{"c8", at::kComplexFloat}, NpyType{"c16", at::kComplexDouble}};

/// Reads the Python dict in the head, which numpy writes in one form.
class NpyHead {
 public:
  explicit NpyHead(std::string_view text) : text_(text) {}

  /// The text after `key`, up to `end`; nullopt if it is not there.
  std::optional<std::string_view> value(std::string_view key, char begin, char end) const {
    const std::size_t at = text_.find(key);
    if (at == std::string_view::npos) return std::nullopt;
    const std::size_t first = text_.find(begin, at + key.size());
    if (first == std::string_view::npos) return std::nullopt;
    const std::size_t last = text_.find(end, first + 1);
    if (last == std::string_view::npos) return std::nullopt;
    return text_.substr(first + 1, last - first - 1);
  }

 private:
  std::string_view text_;
};

std::optional<Dims> dims_in(std::string_view text) {
  Dims dims;
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ',')) text.remove_prefix(1);
    if (text.empty()) return dims;
    std::int64_t dim = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), dim);
    if (error != std::errc() || dim < 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    dims.push_back(dim);
  }
}

/// The bytes of all items; nullopt if they are too many.
std::optional<std::int64_t> bytes_of_items(const Dims& shape, std::size_t item) {
  std::int64_t bytes = static_cast<std::int64_t>(item);
  for (const std::int64_t dim : shape) {
    if (dim > 0 && bytes > kMostNpyItems / dim) return std::nullopt;
    bytes *= dim;
  }
  return bytes;
}

}  // namespace

std::string read_npy(std::string_view file, NpyArray& array) {
  if (!file.starts_with(kNpyMagic) || file.size() < 12) return "is no .npy file";
  const auto byte = [&](std::size_t at) {
    return static_cast<std::size_t>(static_cast<unsigned char>(file[at]));
  };
  const bool wide = byte(6) >= 2;
  std::size_t length = byte(8) | byte(9) << 8;
  if (wide) length |= byte(10) << 16 | byte(11) << 24;
  const std::size_t begin = wide ? 12 : 10;
  if (byte(6) < 1 || byte(6) > 3 || length > file.size() - begin)
    return "is no .npy file, or one of a newer version";
  const NpyHead head(file.substr(begin, length));
  const auto type = head.value("'descr':", '\'', '\'');
  const auto shape = head.value("'shape':", '(', ')');
  const auto order = head.value("'fortran_order':", ' ', ',');
  if (!type || type->size() < 3 || !shape || !order) return "has a .npy head that cannot be read";
  const auto known = std::find_if(kNpyTypes.begin(), kNpyTypes.end(),
                                  [&](const NpyType& entry) { return entry.name == type->substr(1); });
  if (known == kNpyTypes.end() || (*type)[0] == '>')
    return "has the numpy dtype '" + std::string(*type) + "', which is not supported";
  const auto dims = dims_in(*shape);
  const std::size_t item = c10::elementSize(known->dtype);
  const auto bytes = dims ? bytes_of_items(*dims, item) : std::nullopt;
  if (!bytes) return "has an impossible shape, (" + std::string(shape->substr(0, 100)) + ")";
  const std::string_view data = file.substr(begin + length);
  if (data.size() != static_cast<std::size_t>(*bytes)) {
    return "needs " + std::to_string(*bytes) + " bytes for its shape (" + std::string(*shape) +
           "), but has " + std::to_string(data.size());
  }
  array = {known->dtype, *dims, *order == "True", data};
  return {};
}

void copy_npy(const NpyArray& array, char* to) {
  if (array.data.empty()) return;
  if (!array.fortran_order || array.shape.size() < 2) {
    std::memcpy(to, array.data.data(), array.data.size());
    return;
  }
  const std::size_t item = c10::elementSize(array.dtype);
  std::vector<std::int64_t> index(array.shape.size(), 0);
  std::vector<std::int64_t> strides(array.shape.size(), 1);
  for (std::size_t dim = 1; dim < strides.size(); ++dim)
    strides[dim] = strides[dim - 1] * array.shape[dim - 1];
  for (std::size_t done = 0; done < array.data.size(); done += item) {
    std::int64_t from = 0;
    for (std::size_t dim = 0; dim < index.size(); ++dim) from += index[dim] * strides[dim];
    std::memcpy(to + done, array.data.data() + static_cast<std::size_t>(from) * item, item);
    for (std::size_t left = index.size(); left > 0; --left) {
      index[left - 1] += 1;
      if (index[left - 1] < array.shape[left - 1]) break;
      index[left - 1] = 0;
    }
  }
}

}  // namespace torch_distinput
