// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "core/element_type.h"
#include "core/first_row.h"
#include "core/names.h"
#include "execution/open.h"
#include "execution/parse_node.h"
#include "io/utf8.h"
#include "kernels/npy.h"
#include "kernels/rows.h"
#include "ops/ops.h"
#include "torch_distinput/error.h"

namespace torch_distinput::ops {
namespace {

constexpr const char* kDecodeMembersName = "decode_members";

enum class MemberKind { kOther, kNumber, kText, kNpy };

/// How the member under `key` is decoded, by the part of its suffix after the last dot.
MemberKind kind_of(const std::string& key) {
  const std::string suffix = key.substr(key.rfind('.') + 1);
  if (suffix == "cls") return MemberKind::kNumber;
  if (suffix == "txt" || suffix == "json") return MemberKind::kText;
  return suffix == "npy" ? MemberKind::kNpy : MemberKind::kOther;
}

/// What messages name: the op, the row and the member.
struct MemberPlace {
  const RecordName& name;
  const std::string& key;

  [[noreturn]] void refuse(std::int64_t row, const std::string& problem) const {
    throw InvalidArgumentError(std::string(kDecodeMembersName) + ": " + name(row) + ": member '" + key +
                               "' " + problem + ".");
  }
};

at::Tensor numbers_of(const Bytes& members, const MemberPlace& place, BufferPool& pool) {
  at::Tensor numbers = pooled_tensor(members.shape, at::kLong, pool);
  auto* const to = static_cast<std::int64_t*>(numbers.mutable_data_ptr());
  for (std::int64_t row = 0; row < members.count(); ++row) {
    std::string_view text = members[row];
    while (!text.empty() && static_cast<unsigned char>(text.front()) <= ' ') text.remove_prefix(1);
    while (!text.empty() && static_cast<unsigned char>(text.back()) <= ' ') text.remove_suffix(1);
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), to[row]);
    if (text.empty() || error != std::errc() || end != text.data() + text.size())
      place.refuse(row, "must be an integer, but is \"" + std::string(text.substr(0, 40)) + "\"");
  }
  return numbers;
}

Bytes text_of(Bytes members, const MemberPlace& place) {
  for (std::int64_t row = 0; row < members.count(); ++row) {
    const std::string_view text = members[row];
    const std::size_t valid = utf8_prefix({text.data(), text.size()});
    if (valid < text.size())
      place.refuse(row, "must be UTF-8, but byte " + std::to_string(valid) + " is not");
  }
  members.utf8 = true;
  return members;
}

/// The dtype and the number of dims that arrays must have, and the dims where there is none.
struct ArrayType {
  c10::ScalarType dtype;
  Dims dims;
};

NpyHead read_head(std::string_view member, std::int64_t row, const MemberPlace& place) {
  try {
    const std::uint64_t size = npy_head_size(member.substr(0, kNpyPrefixBytes));
    if (size > member.size())
      throw NpyError(member.size(), "the head has " + std::to_string(size) + " bytes");
    return read_npy_head(member.substr(0, static_cast<std::size_t>(size)), member.size());
  } catch (const NpyError& error) {
    place.refuse(row, "cannot be read at byte " + std::to_string(error.offset()) + ": " + error.what());
  }
}

/// The arrays of all rows, which must be of type `like` and of one shape.
at::Tensor arrays_of(const Bytes& members, const ArrayType& like, const MemberPlace& place,
                     BufferPool& pool) {
  at::Tensor arrays;
  Dims inner = like.dims;
  char* to = nullptr;
  for (std::int64_t row = 0; row < members.count(); ++row) {
    const NpyHead array = read_head(members[row], row, place);
    if (array.dtype != like.dtype || array.shape.size() != like.dims.size()) {
      place.refuse(
          row, "must be " +
                   to_string(LeafSpec(TensorSpec{Dims(like.dims.size(), kUnknownDim), like.dtype, {}})) +
                   " as that of the first element, but is torch." + dtype_name(array.dtype) + " of shape " +
                   dims_string(array.shape));
    }
    if (row == 0) inner = array.shape;
    if (array.shape != inner) {
      place.refuse(row, "has the shape " + dims_string(array.shape) + ", but that of row 0 has " +
                            dims_string(inner) +
                            "; decode single elements and use padded_batch or ragged_batch");
    }
    if (row == 0) {
      Dims shape = members.shape;
      shape.insert(shape.end(), inner.begin(), inner.end());
      arrays = pooled_tensor(shape, like.dtype, pool);
      to = static_cast<char*>(arrays.mutable_data_ptr());
    }
    const std::string_view items = members[row].substr(static_cast<std::size_t>(array.size));
    copy_npy_items(array, items, to);
    to += items.size();
  }
  if (arrays.defined()) return arrays;
  Dims shape = members.shape;
  shape.insert(shape.end(), inner.begin(), inner.end());
  return pooled_tensor(shape, like.dtype, pool);
}

/// The types of the arrays by leaf; nullopt for leaves that are none.
using ArrayTypes = std::vector<std::optional<ArrayType>>;

/// Decodes the members of dicts. Without `types`, arrays are as that of row 0.
class MemberDecoder final : public ElementParser {
 public:
  explicit MemberDecoder(ArrayTypes types) : types_(std::move(types)) {}

  Element parse(Element element, BufferPool& pool, const RecordName& name) const override {
    const auto& keys = element.structure()->keys();
    for (std::size_t i = 0; i < keys.size() && i < element.leaves().size(); ++i) {
      Leaf& leaf = element.leaves()[i];
      auto* const members = std::get_if<Bytes>(&leaf);
      if (members == nullptr || members->utf8) continue;
      const MemberPlace place{name, keys[i]};
      switch (kind_of(keys[i])) {
        case MemberKind::kNumber:
          leaf = numbers_of(*members, place, pool);
          break;
        case MemberKind::kText:
          leaf = text_of(std::move(*members), place);
          break;
        case MemberKind::kNpy:
          leaf = arrays_of(*members, like(*members, i, place), place, pool);
          break;
        case MemberKind::kOther:
          break;
      }
    }
    return element;
  }
  bool stacks() const override { return true; }
  bool row_wise() const override { return true; }

 private:
  /// The type of the arrays in leaf `leaf`: that which is known, or that of row 0.
  ArrayType like(const Bytes& members, std::size_t leaf, const MemberPlace& place) const {
    if (leaf < types_.size() && types_[leaf]) return *types_[leaf];
    const NpyHead first = members.count() > 0 ? read_head(members[0], 0, place) : NpyHead{};
    return {first.dtype, first.shape};
  }

  ArrayTypes types_;
};

/// Decodes the members of archives by suffix. Rows and random access are those of the input. The spec of .npy
/// members is known from the first element.
class DecodeMembersNode final : public ParseNode {
 public:
  using ParseNode::ParseNode;

  std::string_view name() const override { return kDecodeMembersName; }
  std::string describe() const override { return "decode_members()"; }
  NodePtr with_inputs(std::vector<NodePtr> inputs) const override {
    return std::make_shared<DecodeMembersNode>(std::move(inputs.at(0)));
  }

  SpecPtr spec() const override {
    return spec_.get([this]() -> SpecPtr {
      const SpecPtr before = input().spec();
      if (before == nullptr) return nullptr;
      ElementSpec spec = *before;
      const auto& keys = spec.structure->keys();
      for (std::size_t i = 0; i < keys.size() && i < spec.leaves.size(); ++i) {
        const auto* const strings = std::get_if<StringSpec>(&spec.leaves[i]);
        if (strings == nullptr || strings->encoding) continue;
        const std::optional<Dims> shape = strings->shape;
        const MemberKind kind = kind_of(keys[i]);
        if (kind == MemberKind::kNumber) spec.leaves[i] = TensorSpec{shape, at::kLong, {}};
        if (kind == MemberKind::kText) spec.leaves[i] = StringSpec{shape, "utf-8"};
        if (kind == MemberKind::kNpy && !probe(i, shape, spec.leaves[i])) return nullptr;
      }
      return std::make_shared<const ElementSpec>(std::move(spec));
    });
  }

 private:
  ElementParserPtr parser() const override {
    ArrayTypes types;
    const SpecPtr before = input().spec();
    const SpecPtr after = spec();
    for (std::size_t i = 0; after != nullptr && i < after->leaves.size(); ++i) {
      const auto* const array = std::get_if<TensorSpec>(&after->leaves[i]);
      const auto* const strings = std::get_if<StringSpec>(&before->leaves[i]);
      types.emplace_back();
      if (array == nullptr || strings == nullptr || array->expected.empty()) continue;
      const auto batch = static_cast<std::ptrdiff_t>(strings->shape ? strings->shape->size() : 0);
      types.back() = ArrayType{array->dtype, Dims(array->expected.begin() + batch, array->expected.end())};
    }
    return std::make_shared<const MemberDecoder>(std::move(types));
  }

  /// Sets `leaf` to the spec of .npy member `number` in the first element. Returns false if there is none.
  bool probe(std::size_t number, const std::optional<Dims>& batch, LeafSpec& leaf) const {
    const std::optional<Element> first = first_row(options(), [this](const Options& with) {
      const IterContext context = epoch_context(make_execution_context(with), 0, 0, /*stream_only=*/true);
      std::optional<Element> element = input().iterate(context.input(0))->next();
      if (!element) return element;
      const MemberDecoder decoder({});
      return std::optional<Element>(decoder.parse(*std::move(element), *context.execution->pool,
                                                  [](std::int64_t) { return std::string("element 0"); }));
    });
    if (!first) return false;
    const auto& array = std::get<at::Tensor>(first->leaves()[number]);
    Dims dims = batch.value_or(Dims{});
    dims.resize(static_cast<std::size_t>(array.dim()), kUnknownDim);
    leaf = TensorSpec{std::move(dims), array.scalar_type(), array.sizes().vec()};
    return true;
  }

  SpecProbe spec_;
};

}  // namespace

NodePtr decode_members(NodePtr input) {
  const SpecPtr spec = input->spec();
  const bool flat = spec == nullptr || (spec->structure->kind() == Structure::Kind::kDict &&
                                        spec->structure->keys().size() == spec->leaves.size());
  TORCH_CHECK_TYPE(flat, kDecodeMembersName, ": elements must be flat dicts of members by suffix, but are ",
                   flat ? "" : to_string(*spec), ".");
  return std::make_shared<DecodeMembersNode>(std::move(input));
}

}  // namespace torch_distinput::ops
