// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/npy.h"

#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <c10/core/ScalarType.h>

#include "core/names.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kNpyMagic{"\x93NUMPY", 6};
/// numpy itself refuses longer headers of arrays without field names.
constexpr std::uint64_t kMaxNpyHeader = std::uint64_t{1} << 16;

/// Types without a byte order, and the little-endian ones.
const std::map<std::string_view, c10::ScalarType>& npy_types() {
  static const auto& types = *new std::map<std::string_view, c10::ScalarType>{
      {"|b1", c10::kBool},         {"|u1", c10::kByte},          {"|i1", c10::kChar},  {"<u2", c10::kUInt16},
      {"<i2", c10::kShort},        {"<u4", c10::kUInt32},        {"<i4", c10::kInt},   {"<u8", c10::kUInt64},
      {"<i8", c10::kLong},         {"<f2", c10::kHalf},          {"<f4", c10::kFloat}, {"<f8", c10::kDouble},
      {"<c8", c10::kComplexFloat}, {"<c16", c10::kComplexDouble}};
  return types;
}

/// Reads the header, which is a Python dict of a fixed form: {'descr': '<f4', 'fortran_order': False,
/// 'shape': (3, 4), }.
class NpyHeader {
 public:
  /// `text` begins at byte `begin` of the head.
  NpyHeader(std::string_view text, std::uint64_t begin) : text_(text), begin_(begin) {
    expect('{');
    while (!accept('}')) {
      read_entry();
      accept(',');
    }
  }

  /// The type as numpy writes it. Throws NpyError if the header does not tell, as the others.
  const std::string& descr() const { return given(descr_, "descr"); }
  bool fortran_order() const { return given(fortran_order_, "fortran_order"); }
  const Dims& shape() const { return given(shape_, "shape"); }

 private:
  template <class T>
  const T& given(const std::optional<T>& value, const char* key) const {
    if (!value) throw NpyError(begin_, std::string("the header has no '") + key + "'");
    return *value;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    throw NpyError(begin_ + at_, "the header is not an array's: expected " + expected);
  }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char sign) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != sign) return false;
    ++at_;
    return true;
  }
  void expect(char sign) {
    if (!accept(sign)) fail(std::string("'") + sign + "'");
  }

  void read_entry() {
    const std::string key = quoted();
    expect(':');
    if (key == "descr") {
      descr_ = type();
    } else if (key == "fortran_order") {
      fortran_order_ = boolean();
    } else if (key == "shape") {
      shape_ = dims();
    } else {
      fail("'descr', 'fortran_order' or 'shape'");
    }
  }
  std::string quoted() {
    expect('\'');
    const std::size_t end = text_.find('\'', at_);
    if (end == std::string_view::npos) fail("the end of a string");
    std::string result(text_.substr(at_, end - at_));
    at_ = end + 1;
    return result;
  }
  /// A type, or the list of named fields of a structured one, which is refused.
  std::string type() {
    skip_space();
    if (at_ < text_.size() && text_[at_] == '[')
      throw NpyError(begin_ + at_, "its items are structures, but rows must be plain numbers");
    return quoted();
  }
  bool boolean() {
    skip_space();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}}) {
      if (!text_.substr(at_).starts_with(word)) continue;
      at_ += std::strlen(word);
      return value;
    }
    fail("True or False");
  }
  Dims dims() {
    Dims result;
    expect('(');
    while (!accept(')')) {
      result.push_back(number());
      accept(',');
    }
    return result;
  }
  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const std::size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail("a size below 2^63");
    }
    if (at_ == first) fail("a size");
    return value;
  }

  std::string_view text_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<Dims> shape_;
};

c10::ScalarType npy_type(const std::string& descr) {
  const auto known = npy_types().find(descr);
  if (known != npy_types().end()) return known->second;
  if (descr.starts_with('>'))
    throw NpyError(0, "its type '" + descr + "' is big-endian; save it as little-endian");
  if (descr.find('O') != std::string::npos)
    throw NpyError(0,
                   "it holds Python objects, which only unpickling could read; rows must be plain numbers");
  throw NpyError(0, "its type '" + descr + "' has no counterpart in torch");
}

/// The bytes before the header's text.
std::uint64_t text_begin(std::string_view head) { return head[6] == 1 ? 10 : kNpyPrefixBytes; }

}  // namespace

std::uint64_t npy_head_size(std::string_view prefix) {
  if (prefix.size() < kNpyPrefixBytes || !prefix.starts_with(kNpyMagic))
    throw NpyError(0, "this is not a numpy array (.npy)");
  const int version = static_cast<unsigned char>(prefix[6]);
  if (version < 1 || version > 3)
    throw NpyError(6, "version " + std::to_string(version) + " of the format is unknown");
  std::uint32_t length = 0;
  const std::uint64_t begin = text_begin(prefix);
  std::memcpy(&length, prefix.data() + 8, static_cast<std::size_t>(begin - 8));
  if (length > kMaxNpyHeader)
    throw NpyError(8, "a header of " + std::to_string(length) + " bytes is not an array's");
  return begin + length;
}

NpyHead read_npy_head(std::string_view head, std::uint64_t size) {
  const std::uint64_t begin = text_begin(head);
  const NpyHeader header(head.substr(static_cast<std::size_t>(begin)), begin);
  NpyHead array{npy_type(header.descr()), header.shape(), header.fortran_order(), head.size()};
  const std::int64_t needed = bytes_of_array(array.shape, array.dtype);
  const std::uint64_t present = size - head.size();
  if (needed < 0) {
    throw NpyError(begin, "an array of " + dtype_name(array.dtype) + " of shape " + dims_string(array.shape) +
                              " is too large: its dims, but for those of size 0, must stand for fewer than "
                              "2^63 bytes");
  }
  if (static_cast<std::uint64_t>(needed) != present) {
    throw NpyError(begin, "an array of " + dtype_name(array.dtype) + " of shape " + dims_string(array.shape) +
                              " does not fit the " + std::to_string(present) + " bytes after the header");
  }
  return array;
}

void copy_npy_items(const NpyHead& head, std::string_view items, char* to) {
  if (items.empty()) return;
  if (!head.fortran_order || head.shape.size() < 2) {
    std::memcpy(to, items.data(), items.size());
    return;
  }
  const std::size_t item = c10::elementSize(head.dtype);
  std::vector<std::int64_t> index(head.shape.size(), 0);
  std::vector<std::int64_t> strides(head.shape.size(), 1);
  for (std::size_t dim = 1; dim < strides.size(); ++dim)
    strides[dim] = strides[dim - 1] * head.shape[dim - 1];
  for (std::size_t done = 0; done < items.size(); done += item) {
    std::int64_t from = 0;
    for (std::size_t dim = 0; dim < index.size(); ++dim) from += index[dim] * strides[dim];
    std::memcpy(to + done, items.data() + static_cast<std::size_t>(from) * item, item);
    for (std::size_t left = index.size(); left > 0; --left) {
      index[left - 1] += 1;
      if (index[left - 1] < head.shape[left - 1]) break;
      index[left - 1] = 0;
    }
  }
}

std::int64_t bytes_of_array(const Dims& shape, c10::ScalarType dtype) {
  auto bytes = static_cast<std::int64_t>(c10::elementSize(dtype));
  bool empty = false;
  for (const std::int64_t dim : shape) {
    if (dim < 0 || (dim > 0 && __builtin_mul_overflow(bytes, dim, &bytes))) return -1;
    empty = empty || dim == 0;
  }
  return empty ? 0 : bytes;
}

}  // namespace torch_distinput
