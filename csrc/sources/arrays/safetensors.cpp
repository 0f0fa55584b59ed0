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

/// The format's own limit.
constexpr std::uint64_t kMaxTensorsHeader = 100'000'000;

const std::map<std::string_view, c10::ScalarType>& tensor_types() {
  static const auto& types =
      *new std::map<std::string_view, c10::ScalarType>{{"BOOL", c10::kBool},
                                                       {"U8", c10::kByte},
                                                       {"I8", c10::kChar},
                                                       {"U16", c10::kUInt16},
                                                       {"I16", c10::kShort},
                                                       {"U32", c10::kUInt32},
                                                       {"I32", c10::kInt},
                                                       {"U64", c10::kUInt64},
                                                       {"I64", c10::kLong},
                                                       {"F16", c10::kHalf},
                                                       {"BF16", c10::kBFloat16},
                                                       {"F32", c10::kFloat},
                                                       {"F64", c10::kDouble},
                                                       {"C64", c10::kComplexFloat},
                                                       {"F8_E4M3", c10::kFloat8_e4m3fn},
                                                       {"F8_E5M2", c10::kFloat8_e5m2}};
  return types;
}

/// Reads the header, a JSON object of a fixed form: {"name": {"dtype": "F32", "shape": [3, 4],
/// "data_offsets": [0, 48]}, "__metadata__": {"key": "text"}}.
class TensorsHeader {
 public:
  TensorsHeader(std::string_view text, const Stretch& bytes) : text_(text), bytes_(bytes) {
    expect('{');
    for (bool first = true; !accept('}'); first = false) {
      if (!first) expect(',');
      std::string name = quoted();
      expect(':');
      if (name == "__metadata__") {
        skip_metadata();
      } else {
        read_tensor(std::move(name));
      }
    }
    skip_space();
    if (at_ != text_.size()) fail("the end of the header");
  }

  /// The tensors; `offset` is that of the data section's begin.
  std::vector<StoredArray> take() { return std::move(tensors_); }

 private:
  [[noreturn]] void fail(const std::string& expected) const {
    bytes_.damaged(8 + at_, "the header is damaged: expected " + expected);
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
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
  char next() {
    if (at_ == text_.size()) fail("the end of a string");
    return text_[at_++];
  }

  std::string quoted() {
    expect('"');
    std::string result;
    for (char sign = next(); sign != '"'; sign = next()) {
      if (sign == '\\') {
        append_escaped(result);
      } else {
        result += sign;
      }
    }
    return result;
  }
  void append_escaped(std::string& to) {
    constexpr std::string_view kSigns = "\"\\/bfnrt";
    constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char sign = next();
    if (const std::size_t known = kSigns.find(sign); known != std::string_view::npos) {
      to += kValues[known];
    } else if (sign == 'u') {
      append_utf8(to, code_unit());
    } else {
      fail("an escaped sign");
    }
  }
  /// Four hex digits.
  std::uint32_t code_unit() {
    std::uint32_t value = 0;
    for (int digit = 0; digit < 4; ++digit) {
      const char sign = next();
      const std::size_t known = std::string_view("0123456789abcdef").find(static_cast<char>(sign | 0x20));
      const bool is_hex = known != std::string_view::npos;
      if (!is_hex) fail("a hex digit");
      value = value * 16 + static_cast<std::uint32_t>(known);
    }
    return value;
  }
  void append_utf8(std::string& to, std::uint32_t code) {
    if (code >= 0xD800 && code < 0xDC00) {
      if (next() != '\\' || next() != 'u') fail("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + ((code_unit() - 0xDC00) & 0x3FF);
    }
    const auto tail = [&to](std::uint32_t bits) { to += static_cast<char>(0x80 | (bits & 0x3F)); };
    if (code < 0x80) {
      to += static_cast<char>(code);
    } else if (code < 0x800) {
      to += static_cast<char>(0xC0 | (code >> 6));
      tail(code);
    } else if (code < 0x10000) {
      to += static_cast<char>(0xE0 | (code >> 12));
      tail(code >> 6);
      tail(code);
    } else {
      to += static_cast<char>(0xF0 | (code >> 18));
      tail(code >> 12);
      tail(code >> 6);
      tail(code);
    }
  }

  std::int64_t number() {
    skip_space();
    std::int64_t value = 0;
    const std::size_t first = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text_[at_] - '0', &value))
        fail("a number below 2^63");
    }
    if (at_ == first) fail("a number");
    return value;
  }
  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> result;
    expect('[');
    for (bool first = true; !accept(']'); first = false) {
      if (!first) expect(',');
      result.push_back(number());
    }
    return result;
  }
  void skip_metadata() {
    expect('{');
    for (bool first = true; !accept('}'); first = false) {
      if (!first) expect(',');
      quoted();
      expect(':');
      quoted();
    }
  }

  void read_tensor(std::string name) {
    StoredArray tensor;
    tensor.name = std::move(name);
    std::optional<std::string> dtype;
    std::optional<Dims> shape;
    std::vector<std::int64_t> ends;
    expect('{');
    for (bool first = true; !accept('}'); first = false) {
      if (!first) expect(',');
      const std::string field = quoted();
      expect(':');
      if (field == "dtype") {
        dtype = quoted();
      } else if (field == "shape") {
        shape = numbers();
      } else if (field == "data_offsets") {
        ends = numbers();
      } else {
        fail("dtype, shape or data_offsets");
      }
    }
    if (!dtype || !shape || ends.size() != 2) fail("dtype, shape and data_offsets of '" + tensor.name + "'");
    const auto known = tensor_types().find(*dtype);
    if (known == tensor_types().end())
      bytes_.damaged(8,
                     "tensor '" + tensor.name + "' has the type " + *dtype + ", which torch does not have");
    tensor.dtype = known->second;
    tensor.shape = *std::move(shape);
    tensor.offset = static_cast<std::uint64_t>(ends[0]);
    const std::int64_t needed = bytes_of_array(tensor.shape, tensor.dtype);
    if (needed < 0 || ends[1] < ends[0] || ends[1] - ends[0] != needed) {
      bytes_.damaged(8, "tensor '" + tensor.name + "' of " + dtype_name(tensor.dtype) + " and shape " +
                            dims_string(tensor.shape) + " does not fit its place, bytes " +
                            std::to_string(ends[0]) + " to " + std::to_string(ends[1]) + " of the data");
    }
    if (tensor.shape.empty())
      bytes_.damaged(8, "tensor '" + tensor.name + "' is a scalar, but must have rows");
    tensors_.push_back(std::move(tensor));
  }

  std::string_view text_;
  const Stretch& bytes_;
  std::size_t at_ = 0;
  std::vector<StoredArray> tensors_;
};

/// Throws unless the tensors fill `size` bytes without gaps, as the format demands, so that a header cannot
/// name bytes twice.
void check_places(std::vector<StoredArray> tensors, std::uint64_t size, const Stretch& bytes) {
  const auto length = [](const StoredArray& tensor) {
    return static_cast<std::uint64_t>(bytes_of_array(tensor.shape, tensor.dtype));
  };
  std::sort(tensors.begin(), tensors.end(), [&](const StoredArray& a, const StoredArray& b) {
    return std::pair(a.offset, length(a)) < std::pair(b.offset, length(b));
  });
  std::uint64_t end = 0;
  for (const StoredArray& tensor : tensors) {
    if (tensor.offset != end) {
      bytes.damaged(8, "tensor '" + tensor.name + "' begins at byte " + std::to_string(tensor.offset) +
                           " of the data, but the one before it ends at byte " + std::to_string(end));
    }
    end += length(tensor);
  }
  if (end != size) {
    bytes.damaged(bytes.size(), "the tensors end at byte " + std::to_string(end) +
                                    " of the data, which has " + std::to_string(size) + " bytes");
  }
}

}  // namespace

std::vector<StoredArray> read_safetensors(const Stretch& bytes) {
  if (bytes.size() < 8) bytes.damaged(0, "this is no file of safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.read(0, 8).data(), 8);
  if (length > kMaxTensorsHeader || length > bytes.size() - 8)
    bytes.damaged(0, "a header of " + std::to_string(length) + " bytes does not fit in the file");
  const std::string text = bytes.read(8, length);
  std::vector<StoredArray> tensors = TensorsHeader(text, bytes).take();
  const std::uint64_t data = 8 + length;
  check_places(tensors, bytes.size() - data, bytes);
  for (StoredArray& tensor : tensors) tensor.offset += data;
  return tensors;
}

}  // namespace torch_distinput
