// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <c10/util/Exception.h>

#include "core/tensor_on.h"
#include "kernels/dense.h"
#include "kernels/rows.h"
#include "ops/ops.h"
#include "ops/records/leaf_parser.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kDecodeRawName = "decode_raw";

/// The bytes of all strings, which follow one another without gaps.
at::Tensor all_bytes(const Bytes& records) {
  if (!records.offsets.defined()) return records.values;
  const auto* const bounds = static_cast<const std::int64_t*>(records.offsets.const_data_ptr());
  return share_rows(records.values, bounds[0], bounds[records.count()]);
}

/// Whether a tensor may take over the memory of `bytes`: nothing else uses it, and items are aligned.
bool can_take(const at::Tensor& bytes, std::size_t item) {
  const auto address = reinterpret_cast<std::uintptr_t>(bytes.const_data_ptr());
  // One use each is that of `bytes` itself.
  return bytes.use_count() == 1 && bytes.storage().use_count() == 1 && address % item == 0 &&
         static_cast<std::size_t>(bytes.storage_offset()) % item == 0;
}

/// Bytes as numbers in the machine's byte order. A column becomes one tensor; where nothing else uses its
/// memory, no byte is copied.
class DecodeRaw final : public LeafParser {
 public:
  DecodeRaw(c10::ScalarType dtype, Dims shape) : dtype_(dtype), shape_(std::move(shape)) {
    const bool open = is_open();
    row_bytes_ = static_cast<std::int64_t>(c10::elementSize(dtype));
    for (auto dim = shape_.begin() + (open ? 1 : 0); dim != shape_.end(); ++dim) {
      TORCH_CHECK_VALUE(*dim >= (open ? 1 : 0) && *dim <= kMaxBytes / std::max<std::int64_t>(row_bytes_, 1),
                        kDecodeRawName, ": `shape` must be sizes of at least ", open ? 1 : 0,
                        ", of which the first may be None, but is ", dims_string(shape_), ".");
      row_bytes_ *= *dim;
    }
  }

  std::string describe() const override {
    return std::string(kDecodeRawName) + "(dtype=torch." + dtype_name(dtype_) +
           ", shape=" + dims_string(shape_);
  }

  ElementSpec spec(const std::optional<Dims>& shape) const override {
    TensorSpec spec{shape, dtype_, {}};
    if (spec.shape) spec.shape->insert(spec.shape->end(), shape_.begin(), shape_.end());
    return {Structure::leaf(), {std::move(spec)}};
  }

  Element parse(Bytes records, BufferPool& pool, const RecordName& name) const override {
    Dims shape = records.shape;
    shape.insert(shape.end(), shape_.begin(), shape_.end());
    const std::int64_t size = check_sizes(records, name);
    if (is_open()) shape[records.shape.size()] = size / row_bytes_;
    at::Tensor bytes = all_bytes(records);
    records = {};
    const std::size_t item = c10::elementSize(dtype_);
    if (dtype_ != at::kBool && can_take(bytes, item)) {
      const auto offset = static_cast<std::size_t>(bytes.storage_offset());
      return tensor_on(bytes.storage(), offset, shape, dtype_);
    }
    at::Tensor numbers = pooled_tensor(shape, dtype_, pool);
    copy_bytes(bytes, static_cast<char*>(numbers.mutable_data_ptr()));
    return numbers;
  }

 private:
  static constexpr std::int64_t kMaxBytes = std::int64_t{1} << 40;

  bool is_open() const { return !shape_.empty() && shape_.front() == kUnknownDim; }

  /// Returns the bytes of a record, the same for all.
  std::int64_t check_sizes(const Bytes& records, const RecordName& name) const {
    const std::int64_t count = records.count();
    if (count == 0) return is_open() ? 0 : row_bytes_;
    const std::int64_t wanted = is_open() ? static_cast<std::int64_t>(records[0].size()) : row_bytes_;
    if (is_open() && wanted % row_bytes_ != 0) {
      throw InvalidArgumentError(c10::str(kDecodeRawName, ": ", name(0), " has ", wanted,
                                          " bytes, which is not a multiple of the ", row_bytes_, " bytes of ",
                                          item_text(), "."));
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const auto size = static_cast<std::int64_t>(records[i].size());
      if (size == wanted) continue;
      const std::string rule = is_open() ? "row 0 of the same batch has " + std::to_string(wanted)
                                         : item_text() + " needs " + std::to_string(wanted);
      throw InvalidArgumentError(
          c10::str(kDecodeRawName, ": ", name(i), " has ", size, " bytes, but ", rule,
                   is_open() || !shape_.empty() ? "." : "; shape=(None,) takes any number of items."));
    }
    return wanted;
  }

  std::string item_text() const {
    Dims inner(shape_.begin() + (is_open() ? 1 : 0), shape_.end());
    return "torch." + dtype_name(dtype_) + (inner.empty() ? "" : " of shape " + dims_string(inner));
  }

  void copy_bytes(const at::Tensor& bytes, char* to) const {
    if (dtype_ != at::kBool) {
      copy_items(bytes, to);
      return;
    }
    // A bool may only hold 0 or 1.
    const auto* const from = static_cast<const char*>(bytes.const_data_ptr());
    std::transform(from, from + bytes.numel(), to, [](char byte) { return byte != 0 ? 1 : 0; });
  }

  c10::ScalarType dtype_;
  Dims shape_;
  std::int64_t row_bytes_;  ///< of a record; of an item along the open dim, if there is one
};

}  // namespace

NodePtr decode_raw(NodePtr input, c10::ScalarType dtype, Dims shape, std::optional<LeafKey> key) {
  const bool plain = c10::isIntegralType(dtype, /*includeBool=*/true) || c10::isComplexType(dtype) ||
                     dtype == at::kDouble || dtype == at::kFloat || dtype == at::kHalf ||
                     dtype == at::kBFloat16;
  TORCH_CHECK_VALUE(plain, kDecodeRawName, ": `dtype` must be a type of numbers or bool, but is torch.",
                    dtype_name(dtype), ".");
  return parse_leaf(std::move(input), kDecodeRawName,
                    std::make_shared<const DecodeRaw>(dtype, std::move(shape)), std::move(key));
}

}  // namespace torch_distinput::ops
