// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>

#include "io/wire.h"
#include "kernels/rows.h"
#include "ops/ops.h"
#include "ops/records/leaf_parser.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kParseTensorName = "parse_tensor";

// Field numbers of tensorflow/core/framework/{tensor,tensor_shape}.proto.
constexpr std::uint64_t kTensorDtype = 1;
constexpr std::uint64_t kTensorShape = 2;
constexpr std::uint64_t kTensorContent = 4;
constexpr std::uint64_t kShapeDim = 2;
constexpr std::uint64_t kShapeUnknownRank = 3;
constexpr std::uint64_t kDimSize = 1;

/// A dtype in a TensorProto.
struct TensorType {
  c10::ScalarType dtype;
  std::uint64_t number;  ///< in types.proto
  std::uint64_t field;   ///< of the values, where they are not in `tensor_content`
  WireType stored;       ///< how that field stores one of them
  std::size_t scalar;    ///< bytes of a stored value; a complex number is two of them
};
constexpr std::array kTensorTypes{
    TensorType{at::kFloat, 1, 5, WireType::kFixed32, 4},
    TensorType{at::kDouble, 2, 6, WireType::kFixed64, 8},
    TensorType{at::kInt, 3, 7, WireType::kVarint, 4},
    TensorType{at::kByte, 4, 7, WireType::kVarint, 1},
    TensorType{at::kShort, 5, 7, WireType::kVarint, 2},
    TensorType{at::kChar, 6, 7, WireType::kVarint, 1},
    TensorType{at::kComplexFloat, 8, 9, WireType::kFixed32, 4},
    TensorType{at::kLong, 9, 10, WireType::kVarint, 8},
    TensorType{at::kBool, 10, 11, WireType::kVarint, 1},
    TensorType{at::kBFloat16, 14, 13, WireType::kVarint, 2},
    TensorType{at::kUInt16, 17, 7, WireType::kVarint, 2},
    TensorType{at::kComplexDouble, 18, 12, WireType::kFixed64, 8},
    TensorType{at::kHalf, 19, 13, WireType::kVarint, 2},
    TensorType{at::kUInt32, 22, 16, WireType::kVarint, 4},
    TensorType{at::kUInt64, 23, 17, WireType::kVarint, 8},
};

/// What a TensorProto holds; false for malformed bytes.
struct TensorMessage {
  std::uint64_t number = 0;  ///< of the dtype
  Dims shape = {};
  bool unknown_rank = false;
  std::string_view content = {};
  std::string values = {};  ///< those that stand in a field of their own

  bool read(std::string_view message, const TensorType& type) {
    WireReader reader(message);
    while (!reader.done()) {
      std::uint64_t field;
      WireType stored;
      if (!reader.head(field, stored) || !read_field(reader, field, stored, type)) return false;
    }
    return true;
  }

 private:
  bool read_field(WireReader& reader, std::uint64_t field, WireType stored, const TensorType& type) {
    std::string_view bytes;
    if (field == kTensorDtype && stored == WireType::kVarint) return reader.varint(number);
    if (field == kTensorShape && stored == WireType::kBytes) return reader.bytes(bytes) && read_shape(bytes);
    if (field == kTensorContent && stored == WireType::kBytes) return reader.bytes(content);
    if (field != type.field) return reader.skip(stored);
    if (stored == type.stored) return read_value(reader, type);
    if (stored != WireType::kBytes || !reader.bytes(bytes)) return false;
    WireReader packed(bytes);
    while (!packed.done())
      if (!read_value(packed, type)) return false;
    return true;
  }

  bool read_shape(std::string_view message) {
    WireReader reader(message);
    while (!reader.done()) {
      std::uint64_t field;
      WireType stored;
      if (!reader.head(field, stored)) return false;
      std::string_view dim;
      std::uint64_t flag = 0;
      if (field == kShapeDim && stored == WireType::kBytes) {
        if (!reader.bytes(dim) || !read_dim(dim)) return false;
      } else if (field == kShapeUnknownRank && stored == WireType::kVarint) {
        if (!reader.varint(flag)) return false;
        unknown_rank = flag != 0;
      } else if (!reader.skip(stored)) {
        return false;
      }
    }
    return true;
  }

  bool read_dim(std::string_view message) {
    WireReader reader(message);
    std::uint64_t size = 0;
    while (!reader.done()) {
      std::uint64_t field;
      WireType stored;
      if (!reader.head(field, stored)) return false;
      const bool is_size = field == kDimSize && stored == WireType::kVarint;
      if (!(is_size ? reader.varint(size) : reader.skip(stored))) return false;
    }
    shape.push_back(static_cast<std::int64_t>(size));
    return true;
  }

  bool read_value(WireReader& reader, const TensorType& type) {
    std::uint64_t bits = 0;
    std::uint32_t narrow = 0;
    bool read = false;
    if (type.stored == WireType::kFixed32) {
      read = reader.fixed(narrow);
      bits = narrow;
    } else {
      read = type.stored == WireType::kVarint ? reader.varint(bits) : reader.fixed(bits);
    }
    if (type.dtype == at::kBool) bits = bits != 0 ? 1 : 0;
    std::array<char, sizeof(bits)> bytes;
    std::memcpy(bytes.data(), &bits, sizeof(bits));
    values.append(bytes.data(), type.scalar);
    return read;
  }
};

/// tf.io.serialize_tensor's TensorProto messages as tensors, by the rules of tf.io.parse_tensor.
class ParseTensor final : public LeafParser {
 public:
  ParseTensor(const TensorType& type, std::optional<Dims> shape) : type_(type), shape_(std::move(shape)) {}

  std::string describe() const override {
    return std::string(kParseTensorName) + "(dtype=torch." + dtype_name(type_.dtype) +
           ", shape=" + dims_string(shape_);
  }
  ElementSpec spec(const std::optional<Dims>& shape) const override {
    TensorSpec spec{std::nullopt, type_.dtype, {}};
    if (shape && shape_) {
      spec.shape = *shape;
      spec.shape->insert(spec.shape->end(), shape_->begin(), shape_->end());
    }
    return {Structure::leaf(), {std::move(spec)}};
  }

  Element parse(Bytes records, BufferPool& pool, const RecordName& name) const override {
    at::Tensor tensors;
    std::optional<Dims> inner;
    char* to = nullptr;
    for (std::int64_t row = 0; row < records.count(); ++row) {
      const auto refuse = [&](const std::string& problem) {
        throw InvalidArgumentError(std::string(kParseTensorName) + ": " + name(row) + " " + problem + ".");
      };
      TensorMessage message;
      if (!message.read(records[row], type_)) refuse("is not a TensorProto: its bytes are malformed");
      if (message.number != type_.number)
        refuse("must be torch." + dtype_name(type_.dtype) + ", but is " + stored_type(message.number));
      if (message.unknown_rank || !fits(message.shape)) {
        refuse("must have the shape " + dims_string(shape_) + ", but has " +
               dims_string(message.unknown_rank ? std::optional<Dims>() : message.shape));
      }
      const std::int64_t bytes = bytes_of(message.shape);
      if (bytes < 0) refuse("has an impossible shape, " + dims_string(message.shape));
      if (inner && *inner != message.shape)
        refuse("has the shape " + dims_string(message.shape) + ", but row 0 of the same batch has " +
               dims_string(inner));
      const std::string_view given =
          message.content.empty() ? std::string_view(message.values) : message.content;
      const auto wanted = static_cast<std::size_t>(bytes);
      const bool repeats = message.content.empty() && given.size() < wanted && wanted <= kMaxRepeated &&
                           given.size() % c10::elementSize(type_.dtype) == 0;
      if (!repeats && given.size() != wanted)
        refuse("needs " + std::to_string(wanted) + " bytes for its shape " + dims_string(message.shape) +
               ", but has " + std::to_string(given.size()));
      if (!inner) {
        inner = message.shape;
        tensors = tensor_of(records.shape, *inner, pool);
        to = static_cast<char*>(tensors.mutable_data_ptr());
      }
      to = fill(given, wanted, to);
    }
    return tensors.defined() ? tensors : tensor_of(records.shape, zero_dims(), pool);
  }

 private:
  static std::string stored_type(std::uint64_t number) {
    const auto found = std::find_if(kTensorTypes.begin(), kTensorTypes.end(),
                                    [&](const TensorType& type) { return type.number == number; });
    if (found == kTensorTypes.end()) return "of the TensorFlow type number " + std::to_string(number);
    return "torch." + dtype_name(found->dtype);
  }

  bool fits(const Dims& shape) const {
    if (!shape_) return true;
    return shape.size() == shape_->size() && std::equal(shape.begin(), shape.end(), shape_->begin(),
                                                        [](std::int64_t size, std::int64_t wanted) {
                                                          return wanted == kUnknownDim || size == wanted;
                                                        });
  }
  Dims zero_dims() const {
    Dims dims = shape_.value_or(Dims{});
    std::replace(dims.begin(), dims.end(), kUnknownDim, std::int64_t{0});
    return dims;
  }

  /// A tensor whose last value is repeated is at most this large: a damaged shape must not allocate more.
  static constexpr std::size_t kMaxRepeated = std::size_t{64} << 20;

  /// The bytes of a tensor; -1 for an impossible shape.
  std::int64_t bytes_of(const Dims& shape) const {
    constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;
    auto bytes = static_cast<std::int64_t>(c10::elementSize(type_.dtype));
    for (const std::int64_t dim : shape) {
      if (dim < 0 || (dim > 0 && bytes > kMaxBytes / dim)) return -1;
      bytes *= dim;
    }
    return bytes;
  }

  at::Tensor tensor_of(const Dims& batch, const Dims& inner, BufferPool& pool) const {
    Dims shape = batch;
    shape.insert(shape.end(), inner.begin(), inner.end());
    return pooled_tensor(shape, type_.dtype, pool);
  }

  /// Writes the values and repeats the last one, or 0, until there are `wanted` bytes. Returns the end.
  char* fill(std::string_view given, std::size_t wanted, char* to) const {
    const std::size_t item = c10::elementSize(type_.dtype);
    if (!given.empty()) std::memcpy(to, given.data(), given.size());
    for (std::size_t at = given.size(); at < wanted; at += item) {
      if (given.size() >= item) {
        std::memcpy(to + at, given.data() + given.size() - item, item);
      } else {
        std::memset(to + at, 0, item);
      }
    }
    // A bool may only hold 0 or 1.
    if (type_.dtype == at::kBool)
      std::transform(to, to + wanted, to, [](char byte) { return static_cast<char>(byte != 0 ? 1 : 0); });
    return to + wanted;
  }

  TensorType type_;
  std::optional<Dims> shape_;
};

}  // namespace

NodePtr parse_tensor(NodePtr input, c10::ScalarType dtype, std::optional<Dims> shape,
                     std::optional<LeafKey> key) {
  const auto type = std::find_if(kTensorTypes.begin(), kTensorTypes.end(),
                                 [&](const TensorType& entry) { return entry.dtype == dtype; });
  TORCH_CHECK_VALUE(type != kTensorTypes.end(), kParseTensorName,
                    ": `dtype` must be a type that TensorFlow has, too, but is torch.", dtype_name(dtype),
                    ".");
  for (const std::int64_t dim : shape.value_or(Dims{}))
    TORCH_CHECK_VALUE(dim >= 0 || dim == kUnknownDim, kParseTensorName,
                      ": `shape` must be sizes of at least 0 or None, but is ", dims_string(shape), ".");
  return parse_leaf(std::move(input), kParseTensorName,
                    std::make_shared<const ParseTensor>(*type, std::move(shape)), std::move(key));
}

}  // namespace torch_distinput::ops
