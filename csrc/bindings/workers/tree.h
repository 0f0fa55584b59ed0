// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

/// \file
/// A Python value as bytes, on its way between a process and its worker: a tree of tags, each followed by
/// what its line says. Memory of tensors and buffers lies beside the tree, at the offsets that it names.

namespace torch_distinput {

enum class Tag : std::uint8_t {
  kNone,
  kTrue,
  kFalse,
  kInt,         // int64
  kFloat,       // double
  kStr,         // length, UTF-8
  kBytes,       // length, bytes
  kInts,        // length, int64 each: a list of ints, or memory of int64 among the indices of a task
  kNones,       // length: a list of None
  kList,        // length, values
  kTuple,       // length, values
  kDict,        // length, keys and values by turns
  kNamedTuple,  // pickled class (length, bytes), length, values
  kTensor,      // dtype, dims, sizes, strides, bytes, offset
  kPickled,     // length, bytes; number of buffers, for each of them: bytes, offset
};

class TreeWriter {
 public:
  void tag(Tag tag) { text_.push_back(static_cast<char>(tag)); }
  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void length(std::size_t value) { number(static_cast<std::uint64_t>(value)); }
  void string(std::string_view value) {
    length(value.size());
    text_.append(value);
  }
  void bytes(std::string_view value) { text_.append(value); }
  /// Appends `size` bytes, which the caller writes before the next call.
  char* space(std::size_t size) {
    text_.resize(text_.size() + size);
    return text_.data() + text_.size() - size;
  }

  const std::string& text() const noexcept { return text_; }
  void cut(std::size_t size) { text_.resize(size); }

 private:
  std::string text_;
};

class TreeReader {
 public:
  explicit TreeReader(std::string_view text) : text_(text) {}

  Tag tag() { return static_cast<Tag>(number<std::uint8_t>()); }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  std::size_t length() { return number<std::uint64_t>(); }
  std::string_view string() { return take(length()); }
  std::string_view bytes(std::size_t size) { return take(size); }

 private:
  std::string_view take(std::size_t size) {
    if (size > text_.size()) throw std::runtime_error("workers: a message ends early");
    const std::string_view taken = text_.substr(0, size);
    text_.remove_prefix(size);
    return taken;
  }

  std::string_view text_;
};

}  // namespace torch_distinput
