// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/import_block.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>

#include "kernels/rows.h"
#include "sources/columns/arrow_values.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Kind = ColumnType::Kind;

/// Which items are there; nullopt: all.
using Valid = std::optional<std::vector<bool>>;

/// One column's part of an array: items [begin, begin + count) before the array's own offset is added.
struct Items {
  const ArrowArray* array;
  std::int64_t begin;
  std::int64_t count;
};

class BlockImport {
 public:
  BlockImport(ArrowBatch batch, BlockPlace place) : batch_(std::move(batch)), place_(std::move(place)) {}

  void add_column(const ColumnType& type, const Items& items, const Valid& around, bool in_struct,
                  std::vector<Leaf>& leaves) {
    check_array(type, items);
    Valid valid = validity(type, items, around);
    if (type.kind == Kind::kStruct) {
      const ArrowArray& array = *items.array;
      check(array.n_children == static_cast<std::int64_t>(type.children.size()), type, "has ",
            array.n_children, " children, but its type has ", type.children.size());
      for (std::size_t i = 0; i < type.children.size(); ++i) {
        add_column(type.children[i], {array.children[i], array.offset + items.begin, items.count}, valid,
                   true, leaves);
      }
      return;
    }
    const bool mask = in_struct && type.nulls.kind == NullRule::Kind::kMask;
    leaves.push_back(values(type, items, valid));
    if (valid && !mask) require_fill(type, *valid);
    if (valid) fill_rows(leaves.back(), *valid, mask ? NullRule{} : type.nulls);
    if (mask) leaves.emplace_back(mask_leaf(valid, items.count));
  }

 private:
  template <class... Parts>
  void check(bool holds, const ColumnType& type, const Parts&... parts) const {
    if (!holds)
      throw InvalidArgumentError(c10::str(place_.name, ": column '", type.path, "' ", parts..., "."));
  }

  /// Checks what the interface lets us know of an array: its own counts.
  void check_array(const ColumnType& type, const Items& items) const {
    const ArrowArray& array = *items.array;
    check(array.length >= 0 && array.offset >= 0 && items.begin >= 0 &&
              items.count <= array.length - items.begin,
          type, "has an array of ", array.length, " items, of which ", items.begin, " to ",
          items.begin + items.count, " are needed");
    const std::int64_t buffers = type.indices ? 2 : needed_buffers(type.kind);
    check(array.n_buffers >= buffers, type, "has ", array.n_buffers, " buffers, but needs ", buffers);
    const bool has_values = items.count == 0 || type.kind == Kind::kStruct || type.kind == Kind::kFixedList;
    check(has_values || array.buffers[1] != nullptr, type, "has no buffer of values");
  }

  static std::int64_t needed_buffers(Kind kind) {
    if (kind == Kind::kStruct || kind == Kind::kFixedList) return 1;
    return kind == Kind::kString || kind == Kind::kStringView ? 3 : 2;
  }

  /// Validity of `items`: an item is valid if its own bit and its parent's (`around`) are set.
  Valid validity(const ColumnType& type, const Items& items, const Valid& around) const {
    const ArrowArray& array = *items.array;
    Valid valid = around;
    const auto* const bits = static_cast<const std::uint8_t*>(array.buffers[0]);
    if (array.null_count != 0 && bits != nullptr) {
      for (std::int64_t i = 0; i < items.count; ++i) {
        if (bit_at(bits, array.offset + items.begin + i)) continue;
        if (!valid) valid.emplace(static_cast<std::size_t>(items.count), true);
        (*valid)[static_cast<std::size_t>(i)] = false;
      }
    }
    check(array.null_count <= 0 || bits != nullptr, type, "has ", array.null_count, " nulls, but no bitmap");
    if (type.indices) drop_null_values(type, items, valid);
    return valid;
  }

  /// Items whose value in the dictionary is null are not there either.
  void drop_null_values(const ColumnType& type, const Items& items, Valid& valid) const {
    const ColumnType values_type = dictionary_type(type);
    const Valid there = validity(values_type, dictionary_of(type, values_type, items), std::nullopt);
    if (!there) return;
    const at::Tensor indices = indices_of(type, items, valid);
    const auto* const index = static_cast<const std::int64_t*>(indices.const_data_ptr());
    for (std::int64_t i = 0; i < items.count; ++i) {
      const auto item = static_cast<std::size_t>(i);
      if ((valid && !(*valid)[item]) || (*there)[static_cast<std::size_t>(index[i])]) continue;
      if (!valid) valid.emplace(static_cast<std::size_t>(items.count), true);
      (*valid)[item] = false;
    }
  }

  /// The values that the indices of `items` point at, checked as an array.
  Items dictionary_of(const ColumnType& type, const ColumnType& values_type, const Items& items) const {
    const ArrowArray* const dictionary = items.array->dictionary;
    check(dictionary != nullptr, type, "has no dictionary");
    const Items all{dictionary, 0, dictionary->length};
    check_array(values_type, all);
    return all;
  }

  /// The indices of `items` as int64; those that are `valid` lie in the dictionary.
  at::Tensor indices_of(const ColumnType& type, const Items& items, const Valid& valid) const {
    const ArrowArray& array = *items.array;
    at::Tensor indices = number_column(array.buffers[1], type.indices->stored, array.offset + items.begin,
                                       items.count, at::kLong, batch_);
    const std::int64_t size = array.dictionary->length;
    const std::int64_t row = find_bad_index(indices, size, valid);
    check(row < 0, type, "has an index out of range of its dictionary of ", size, " in row ",
          place_.first_row + row);
    return indices;
  }

  /// Throws for a null that no rule replaces, unless all is there.
  void require_fill(const ColumnType& type, const std::vector<bool>& valid) const {
    if (fills(type)) return;
    for (std::size_t row = 0; row < valid.size(); ++row) {
      check(valid[row], type, "is null in row ", place_.first_row + static_cast<std::int64_t>(row),
            "; give `nulls` a value to fill in, or \"mask\"");
    }
  }

  static bool fills(const ColumnType& type) {
    if (type.nulls.kind != NullRule::Kind::kFill) return false;
    const ColumnType* inner = &type;
    while (inner->kind == Kind::kFixedList || inner->kind == Kind::kList) inner = &inner->children[0];
    const bool numbers = inner->kind == Kind::kNumber || inner->kind == Kind::kBool;
    return std::holds_alternative<c10::Scalar>(type.nulls.value) == numbers;
  }

  Leaf values(const ColumnType& type, const Items& items, const Valid& valid) {
    if (type.indices) return dictionary_values(type, items, valid);
    const ArrowArray& array = *items.array;
    const std::int64_t begin = array.offset + items.begin;
    const void* const data = array.n_buffers > 1 ? array.buffers[1] : nullptr;
    switch (type.kind) {
      case Kind::kNumber:
        return number_column(data, type.stored, begin, items.count, type.dtype, batch_);
      case Kind::kBool:
        return bool_column(static_cast<const std::uint8_t*>(data), begin, items.count, type.dtype);
      case Kind::kString: {
        at::Tensor bounds = offsets(type, data, begin, items.count);
        const std::int64_t size = bounds[items.count].item<std::int64_t>();
        check(size == 0 || array.buffers[2] != nullptr, type, "has no bytes");
        return Bytes{
            shared_bytes(array.buffers[2], size, batch_), std::move(bounds), {items.count}, type.utf8};
      }
      case Kind::kStringView: {
        const std::int64_t row = find_bad_view(array, begin, items.count, valid);
        check(row < 0, type, "has a string out of range in row ", place_.first_row + row);
        return view_column(array, begin, items.count, valid, type.utf8);
      }
      case Kind::kFixedBytes:
        return fixed_bytes_column(data, begin, items.count, type.size, batch_);
      case Kind::kFixedList:
        return fixed_list(type, array, begin, items.count, valid);
      case Kind::kList:
        return list(type, array, begin, items.count, valid);
      case Kind::kStruct:
        break;
    }
    TORCH_INTERNAL_ASSERT(false, "a struct has no values of its own");
  }

  /// `count` + 1 offsets from `begin` on as int64, checked to be in order.
  at::Tensor offsets(const ColumnType& type, const void* data, std::int64_t begin, std::int64_t count) const {
    at::Tensor result = offsets_column(data, type.wide, begin, count, batch_);
    const std::int64_t row = find_bad_offset(result);
    check(row < 0, type, "has offsets out of order in row ", place_.first_row + row);
    return result;
  }

  /// The items of lists that are there must be too, or be filled: no mask says which are.
  Leaf items_of_lists(const ColumnType& type, const ArrowArray& child, std::int64_t begin, std::int64_t count,
                      const Valid& around) {
    const Items items{&child, begin, count};
    check_array(type, items);
    Valid own = validity(type, items, std::nullopt);
    if (own && type.nulls.kind != NullRule::Kind::kFill) {
      for (std::int64_t i = 0; i < count; ++i) {
        const auto item = static_cast<std::size_t>(i);
        const bool needed = !around || (*around)[item];
        check(!needed || (*own)[item], type, "has a list with a null in it; give `nulls` a value to fill in");
      }
    }
    Leaf leaf = values(type, items, around ? around : own);
    if (own && type.nulls.kind == NullRule::Kind::kFill) {
      require_fill(type, *own);
      fill_rows(leaf, *own, type.nulls);
    }
    return leaf;
  }

  Leaf fixed_list(const ColumnType& type, const ArrowArray& array, std::int64_t begin, std::int64_t count,
                  const Valid& valid) {
    check(array.n_children == 1, type, "is a list with ", array.n_children, " children");
    check(count == 0 || type.size <= array.children[0]->length / count, type, "has ", count, " lists of ",
          type.size, " items, but only ", array.children[0]->length, " items");
    Valid around;
    if (valid) {
      around.emplace();
      for (const bool there : *valid)
        around->insert(around->end(), static_cast<std::size_t>(type.size), there);
    }
    Leaf leaf =
        items_of_lists(type.children[0], *array.children[0], begin * type.size, count * type.size, around);
    return with_list_dim(std::move(leaf), count, type.size);
  }

  Leaf list(const ColumnType& type, const ArrowArray& array, std::int64_t begin, std::int64_t count,
            const Valid& valid) {
    check(array.n_children == 1, type, "is a list with ", array.n_children, " children");
    at::Tensor bounds = offsets(type, array.buffers[1], begin, count);
    const auto* const bound = static_cast<const std::int64_t*>(bounds.const_data_ptr());
    const std::int64_t first = bound[0], size = bound[count] - first;
    const ArrowArray& child = *array.children[0];
    check(bound[count] <= child.length, type, "has lists that end at item ", bound[count], " of ",
          child.length);
    Valid around;
    if (valid) {
      around.emplace(static_cast<std::size_t>(size), true);
      for (std::int64_t row = 0; row < count; ++row) {
        if ((*valid)[static_cast<std::size_t>(row)]) continue;
        std::fill(around->begin() + (bound[row] - first), around->begin() + (bound[row + 1] - first), false);
      }
    }
    Leaf items = items_of_lists(type.children[0], child, first, size, around);
    return Ragged{std::get<at::Tensor>(std::move(items)), first == 0 ? bounds : rebased(bounds)};
  }

  /// The values that the indices point at; those of absent rows are of any valid row, or zero.
  Leaf dictionary_values(const ColumnType& type, const Items& items, const Valid& valid) {
    const ColumnType values_type = dictionary_type(type);
    const Items all = dictionary_of(type, values_type, items);
    const Valid there = validity(values_type, all, std::nullopt);
    return take_values(values(values_type, all, there), indices_of(type, items, valid), valid);
  }

  /// The type of the values in a dictionary.
  static ColumnType dictionary_type(const ColumnType& type) {
    ColumnType values = type;
    values.indices = nullptr;
    return values;
  }

  ArrowBatch batch_;
  BlockPlace place_;
};

}  // namespace

RowBlock::RowBlock(Element leaves, std::int64_t num_rows) : value(std::move(leaves)), rows(num_rows) {
  dense.reserve(value.leaves().size());
  for (const Leaf& leaf : value.leaves()) {
    const auto* const tensor = std::get_if<at::Tensor>(&leaf);
    if (tensor == nullptr) {
      dense.emplace_back();
      continue;
    }
    const auto item = static_cast<std::int64_t>(tensor->element_size());
    dense.push_back({static_cast<const char*>(tensor->const_data_ptr()), tensor->stride(0) * item});
  }
}

RowBlock import_block(const TableType& type, const ArrowBatch& batch, const BlockPlace& place) {
  return import_rows(type, batch, place, 0, (*batch)->length);
}

RowBlock import_rows(const TableType& type, const ArrowBatch& batch, const BlockPlace& place,
                     std::int64_t begin, std::int64_t end) {
  const ArrowArray& array = **batch;
  std::vector<Leaf> leaves;
  BlockImport(batch, {place.name, place.first_row + begin})
      .add_column(type.root, {&array, begin, end - begin}, std::nullopt, false, leaves);
  return {Element(type.stored.structure, std::move(leaves)), end - begin};
}

}  // namespace torch_distinput
