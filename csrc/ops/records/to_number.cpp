// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <c10/util/Exception.h>

#include "kernels/rows.h"
#include "ops/ops.h"
#include "ops/records/leaf_parser.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kToNumberName = "to_number";
/// A message shows at most this much of a string.
constexpr std::size_t kMaxShown = 40;

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kSpace = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

/// Reads all of `text` as a number. Floats beyond the range become infinite or 0, as in C's strtod; integers
/// beyond it are refused.
template <class Number>
bool read_number(std::string_view text, Number& number) {
  text = trimmed(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (stop != end || text.empty()) return false;
  if constexpr (std::is_floating_point_v<Number>) {
    if (error == std::errc::result_out_of_range)
      number = static_cast<Number>(std::strtod(std::string(text).c_str(), nullptr));
    return error == std::errc() || error == std::errc::result_out_of_range;
  }
  return error == std::errc();
}

/// Decimal numbers in strings, as tf.strings.to_number reads them; space around a number is ignored.
class ToNumber final : public LeafParser {
 public:
  explicit ToNumber(c10::ScalarType dtype) : dtype_(dtype) {}

  std::string describe() const override {
    return std::string(kToNumberName) + "(dtype=torch." + dtype_name(dtype_);
  }
  ElementSpec spec(const std::optional<Dims>& shape) const override {
    return {Structure::leaf(), {TensorSpec{shape, dtype_, {}}}};
  }
  Element parse(Bytes records, BufferPool& pool, const RecordName& name) const override {
    at::Tensor numbers = pooled_tensor(records.shape, dtype_, pool);
    switch (dtype_) {
      case at::kFloat:
        read_all<float>(records, numbers, name);
        break;
      case at::kDouble:
        read_all<double>(records, numbers, name);
        break;
      case at::kInt:
        read_all<std::int32_t>(records, numbers, name);
        break;
      default:
        read_all<std::int64_t>(records, numbers, name);
    }
    return numbers;
  }

 private:
  template <class Number>
  void read_all(const Bytes& records, const at::Tensor& numbers, const RecordName& name) const {
    auto* const to = static_cast<Number*>(numbers.mutable_data_ptr());
    for (std::int64_t i = 0; i < records.count(); ++i) {
      if (read_number(records[i], to[i])) continue;
      throw InvalidArgumentError(c10::str(kToNumberName, ": ", name(i), " must be a number of type torch.",
                                          dtype_name(dtype_), ", but is \"", records[i].substr(0, kMaxShown),
                                          records[i].size() > kMaxShown ? "...\"." : "\"."));
    }
  }

  c10::ScalarType dtype_;
};

}  // namespace

NodePtr to_number(NodePtr input, c10::ScalarType dtype, std::optional<LeafKey> key) {
  TORCH_CHECK_VALUE(dtype == at::kFloat || dtype == at::kDouble || dtype == at::kInt || dtype == at::kLong,
                    kToNumberName, ": `dtype` must be float32, float64, int32 or int64, but is torch.",
                    dtype_name(dtype), ".");
  return parse_leaf(std::move(input), kToNumberName, std::make_shared<const ToNumber>(dtype), std::move(key));
}

}  // namespace torch_distinput::ops
