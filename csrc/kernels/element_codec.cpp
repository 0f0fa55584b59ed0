// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/element_codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>

#include "kernels/dense.h"
#include "kernels/rows.h"

namespace torch_distinput {
namespace {

enum class Kind : std::uint8_t { kDense, kText, kBytes };

class Writer {
 public:
  template <class Number>
  void number(Number value) {
    static_assert(std::is_trivially_copyable_v<Number>);
    std::memcpy(room(sizeof(value)), &value, sizeof(value));
  }
  void dims(std::span<const std::int64_t> dims) {
    number(static_cast<std::uint8_t>(dims.size()));
    for (const std::int64_t dim : dims) number(dim);
  }
  void string(std::string_view string) {
    number(static_cast<std::uint64_t>(string.size()));
    if (!string.empty()) std::memcpy(room(string.size()), string.data(), string.size());
  }
  /// Room for `size` bytes, valid until the next call.
  char* room(std::size_t size) {
    bytes_.resize(bytes_.size() + size);
    return bytes_.data() + (bytes_.size() - size);
  }
  std::vector<char> take() { return std::move(bytes_); }

 private:
  std::vector<char> bytes_;
};

class Reader {
 public:
  Reader(std::span<const char> bytes, std::string_view op) : bytes_(bytes), op_(op) {}

  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, take(sizeof(value)).data(), sizeof(value));
    return value;
  }
  std::vector<std::int64_t> dims() {
    std::vector<std::int64_t> dims(number<std::uint8_t>());
    for (std::int64_t& dim : dims) {
      dim = number<std::int64_t>();
      check(dim >= 0);
    }
    return dims;
  }
  std::string_view string() {
    const std::span<const char> taken = take(number<std::uint64_t>());
    return {taken.data(), taken.size()};
  }
  std::span<const char> take(std::uint64_t size) {
    check(size <= bytes_.size());
    const std::span<const char> taken = bytes_.first(static_cast<std::size_t>(size));
    bytes_ = bytes_.subspan(taken.size());
    return taken;
  }
  /// The product of `dims` and `size`, which must be left to read. Strides count dims of 0 as 1.
  std::int64_t items(std::span<const std::int64_t> dims, std::int64_t size) {
    bool empty = false;
    for (const std::int64_t dim : dims) {
      empty = empty || dim == 0;
      check(!__builtin_mul_overflow(size, std::max<std::int64_t>(dim, 1), &size));
    }
    if (empty) return 0;
    check(static_cast<std::uint64_t>(size) <= bytes_.size());
    return size;
  }
  void check(bool valid) const {
    TORCH_CHECK_VALUE(valid, op_, ": the bytes of an element are not what this library writes.");
  }
  bool at_end() const { return bytes_.empty(); }

 private:
  std::span<const char> bytes_;
  std::string_view op_;
};

void write(Writer& to, const at::Tensor& tensor) {
  to.number(Kind::kDense);
  to.number(tensor.scalar_type());
  to.dims(tensor.sizes());
  copy_items(tensor, to.room(tensor.nbytes()));
}

void write(Writer& to, const Bytes& strings) {
  to.number(strings.utf8 ? Kind::kText : Kind::kBytes);
  to.dims(strings.shape);
  for (std::int64_t i = 0; i < strings.count(); ++i) to.string(strings[i]);
}

at::Tensor read_dense(Reader& from, BufferPool& pool) {
  const auto dtype = from.number<c10::ScalarType>();
  from.check(dtype >= c10::ScalarType::Byte && dtype < c10::ScalarType::NumOptions &&
             dtype != c10::ScalarType::Undefined);
  const std::vector<std::int64_t> shape = from.dims();
  const std::int64_t size = from.items(shape, static_cast<std::int64_t>(c10::elementSize(dtype)));
  at::Tensor tensor = pooled_tensor(shape, dtype, pool);
  const std::span<const char> items = from.take(static_cast<std::uint64_t>(size));
  if (!items.empty()) std::memcpy(tensor.data_ptr(), items.data(), items.size());
  return tensor;
}

Bytes read_strings(Reader& from, bool utf8) {
  std::vector<std::int64_t> shape = from.dims();
  if (shape.empty()) return Bytes::single(from.string(), utf8);
  std::vector<std::string_view> strings(static_cast<std::size_t>(from.items(shape, 1)));
  for (std::string_view& string : strings) string = from.string();
  Bytes column = Bytes::column(strings, utf8);
  column.shape = std::move(shape);
  return column;
}

Leaf read_leaf(Reader& from, BufferPool& pool) {
  switch (from.number<Kind>()) {
    case Kind::kDense:
      return read_dense(from, pool);
    case Kind::kText:
      return read_strings(from, /*utf8=*/true);
    case Kind::kBytes:
      return read_strings(from, /*utf8=*/false);
  }
  from.check(false);
  return {};
}

}  // namespace

std::vector<char> encode_element(const Element& element, std::string_view op) {
  Writer to;
  for (std::size_t leaf = 0; leaf < element.leaves().size(); ++leaf) {
    if (const auto* const strings = std::get_if<Bytes>(&element.leaves()[leaf]))
      write(to, *strings);
    else
      write(to, dense_leaf(element, leaf, op, "share"));
  }
  return to.take();
}

Element decode_element(std::span<const char> bytes, const StructurePtr& structure, BufferPool& pool,
                       std::string_view op) {
  Reader from(bytes, op);
  std::vector<Leaf> leaves;
  for (std::int64_t leaf = 0; leaf < structure->leaf_count(); ++leaf) leaves.push_back(read_leaf(from, pool));
  from.check(from.at_end());
  return Element(structure, std::move(leaves));
}

}  // namespace torch_distinput
