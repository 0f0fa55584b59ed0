// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sources/arrays/array_file.h"

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
  NpyHeader(std::string_view text, const Stretch& bytes, std::uint64_t begin)
      : text_(text), bytes_(bytes), begin_(begin) {
    expect('{');
    while (!accept('}')) {
      read_entry();
      accept(',');
    }
  }

  /// The type as numpy writes it. Throws FileError if the header does not tell.
  const std::string& descr() const { return given(descr_, "descr"); }
  bool fortran_order() const { return given(fortran_order_, "fortran_order"); }
  const Dims& shape() const { return given(shape_, "shape"); }

 private:
  template <class T>
  const T& given(const std::optional<T>& value, const char* key) const {
    if (!value) bytes_.damaged(begin_, std::string("the header has no '") + key + "'");
    return *value;
  }
  [[noreturn]] void fail(const std::string& expected) const {
    bytes_.damaged(begin_ + at_, "the header is no array's: expected " + expected);
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
      bytes_.damaged(begin_ + at_, "its items are structures, but rows must be plain numbers");
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
  const Stretch& bytes_;
  std::uint64_t begin_;
  std::size_t at_ = 0;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<Dims> shape_;
};

c10::ScalarType npy_type(const std::string& descr, const Stretch& bytes) {
  const auto known = npy_types().find(descr);
  if (known != npy_types().end()) return known->second;
  if (descr.starts_with('>'))
    bytes.damaged(0, "its type '" + descr + "' is big-endian; save it as little-endian");
  if (descr.find('O') != std::string::npos)
    bytes.damaged(0, "it holds Python objects, which only unpickling could read; rows must be plain numbers");
  bytes.damaged(0, "its type '" + descr + "' has no counterpart in torch");
}

}  // namespace

StoredArray read_npy(const Stretch& bytes) {
  const std::string head = bytes.read(0, 12 < bytes.size() ? 12 : bytes.size());
  if (!head.starts_with(kNpyMagic) || head.size() < 12) bytes.damaged(0, "this is no array of numpy (.npy)");
  const int version = static_cast<unsigned char>(head[6]);
  if (version < 1 || version > 3)
    bytes.damaged(6, "version " + std::to_string(version) + " of the format is unknown");
  std::uint32_t length = 0;
  const std::uint64_t begin = version == 1 ? 10 : 12;
  std::memcpy(&length, head.data() + 8, static_cast<std::size_t>(begin - 8));
  if (length > kMaxNpyHeader)
    bytes.damaged(8, "a header of " + std::to_string(length) + " bytes is no array's");
  const std::string text = bytes.read(begin, length);
  const NpyHeader header(text, bytes, begin);
  StoredArray array;
  array.dtype = npy_type(header.descr(), bytes);
  array.shape = header.shape();
  array.offset = begin + length;
  if (array.shape.empty()) bytes.damaged(begin, "it is a scalar, but must have rows");
  if (header.fortran_order() && array.shape.size() > 1)
    bytes.damaged(begin, "it is in column-major order; save it with numpy.ascontiguousarray");
  const std::int64_t needed = bytes_of_array(array.shape, array.dtype);
  const std::uint64_t present = bytes.size() - array.offset;
  if (needed < 0 || static_cast<std::uint64_t>(needed) != present) {
    bytes.damaged(begin, "an array of " + dtype_name(array.dtype) + " of shape " + dims_string(array.shape) +
                             " does not fit the " + std::to_string(present) + " bytes after the header");
  }
  return array;
}

}  // namespace torch_distinput
