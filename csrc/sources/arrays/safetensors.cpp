// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <c10/util/Exception.h>

#include "core/names.h"
#include "kernels/npy.h"
#include "sources/arrays/array_file.h"
#include "torch_distinput/state.h"

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

/// The numbers that `entry` lists as `name`; nullopt if it does not.
std::optional<Dims> numbers_of(const State& entry, std::string_view name) {
  const auto* const list = entry.has(name) ? std::get_if<State::List>(&entry.at(name).value()) : nullptr;
  if (list == nullptr) return std::nullopt;
  Dims numbers;
  for (const State& item : *list) {
    const auto* const number = std::get_if<std::int64_t>(&item.value());
    if (number == nullptr || *number < 0) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

/// The tensor that `entry` of the header describes: {"dtype": "F32", "shape": [3, 4],
/// "data_offsets": [0, 48]}. Its `offset` is that in the data after the header.
StoredArray tensor_of(const std::string& name, const State& entry, const Stretch& bytes) {
  const auto* const dtype =
      entry.has("dtype") ? std::get_if<std::string>(&entry.at("dtype").value()) : nullptr;
  std::optional<Dims> shape = numbers_of(entry, "shape");
  const std::optional<Dims> ends = numbers_of(entry, "data_offsets");
  if (dtype == nullptr || !shape || !ends || ends->size() != 2)
    bytes.damaged(8, "the header is damaged: expected dtype, shape and data_offsets of '" + name + "'");
  const auto known = tensor_types().find(*dtype);
  if (known == tensor_types().end())
    bytes.damaged(8, "tensor '" + name + "' has the type " + *dtype + ", which torch does not have");
  Dims dims = *std::move(shape);
  const std::int64_t begin = ends->front(), end = ends->back();
  const std::int64_t needed = bytes_of_array(dims, known->second);
  if (needed < 0 || end < begin || end - begin != needed) {
    bytes.damaged(8, "tensor '" + name + "' of " + dtype_name(known->second) + " and shape " +
                         dims_string(dims) + " does not fit its place, bytes " + std::to_string(begin) +
                         " to " + std::to_string(end) + " of the data");
  }
  if (dims.empty()) bytes.damaged(8, "tensor '" + name + "' is a scalar, but must have rows");
  return {name, known->second, std::move(dims), static_cast<std::uint64_t>(begin)};
}

/// The tensors that `header` describes, a JSON object with an entry for each, and "__metadata__".
std::vector<StoredArray> tensors_of(const State& header, const Stretch& bytes) {
  const auto* const entries = std::get_if<State::Map>(&header.value());
  if (entries == nullptr) bytes.damaged(8, "the header is damaged: expected an object");
  std::vector<StoredArray> tensors;
  for (const auto& [name, entry] : *entries) {
    if (name != "__metadata__") tensors.push_back(tensor_of(name, entry, bytes));
  }
  return tensors;
}

State parse_header(const std::string& text, const Stretch& bytes) {
  try {
    return State::parse(text);
  } catch (const c10::ValueError& error) {
    bytes.damaged(8, std::string("the header is damaged: ") + error.what_without_backtrace());
  }
}

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
  if (bytes.size() < 8) bytes.damaged(0, "this is not a safetensors file");
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.read(0, 8).data(), 8);
  if (length > kMaxTensorsHeader || length > bytes.size() - 8)
    bytes.damaged(0, "a header of " + std::to_string(length) + " bytes does not fit in the file");
  std::vector<StoredArray> tensors = tensors_of(parse_header(bytes.read(8, length), bytes), bytes);
  const std::uint64_t data = 8 + length;
  check_places(tensors, bytes.size() - data, bytes);
  for (StoredArray& tensor : tensors) tensor.offset += data;
  return tensors;
}

}  // namespace torch_distinput
