// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include "torch_distinput/dataset.h"
#include "torch_distinput/element.h"
#include "torch_distinput/spec.h"

/// \file
/// Elements as structs of the program: which field is which leaf, and of which type, is checked once, when a
/// dataset is read as the struct, and the compiler checks the rest.
///
///     struct Example {
///       at::Tensor image;
///       std::string_view name;
///       static auto fields() { return tdi::fields(tdi::field("image", &Example::image),
///                                                 tdi::field("name", &Example::name)); }
///     };
///     for (const Example& example : tdi::as<Example>(dataset)) model->forward(example.image);

namespace torch_distinput {

/// A field of a struct, and the dict key of the leaf that it takes. The type of the field says what leaf that
/// must be: `at::Tensor` a dense one, `Ragged`, `Sparse`, `Bytes` a column of strings, `std::string_view` or
/// `std::string` a single string, an arithmetic type a scalar tensor of its dtype.
template <class Row, class Value>
struct Field {
  std::string_view key;
  Value Row::* member;
};
template <class Row, class Value>
constexpr Field<Row, Value> field(std::string_view key, Value Row::* member) {
  return {key, member};
}
/// The fields of a struct, which its static function `fields()` returns.
template <class... Fields>
constexpr std::tuple<Fields...> fields(Fields... all) {
  return {all...};
}

namespace typed {  // private to the library

template <class Value>
constexpr bool kIsScalar = std::is_arithmetic_v<Value>;
template <class Value>
constexpr bool kIsString = std::is_same_v<Value, std::string_view> || std::is_same_v<Value, std::string>;

/// Whether a leaf of this type can become a `Value`.
template <class Value>
bool fits(const LeafSpec& leaf) {
  if constexpr (std::is_same_v<Value, at::Tensor>) {
    return std::holds_alternative<TensorSpec>(leaf);
  } else if constexpr (std::is_same_v<Value, Ragged>) {
    return std::holds_alternative<RaggedTensorSpec>(leaf);
  } else if constexpr (std::is_same_v<Value, Sparse>) {
    return std::holds_alternative<SparseTensorSpec>(leaf);
  } else if constexpr (std::is_same_v<Value, Bytes>) {
    return std::holds_alternative<StringSpec>(leaf);
  } else if constexpr (kIsString<Value>) {
    const auto* const strings = std::get_if<StringSpec>(&leaf);
    return strings != nullptr && (!strings->shape || strings->shape->empty());
  } else {
    static_assert(kIsScalar<Value>, "a field is an at::Tensor, Ragged, Sparse, Bytes, string or number");
    const auto* const dense = std::get_if<TensorSpec>(&leaf);
    return dense != nullptr && dense->dtype == c10::CppTypeToScalarType<Value>::value &&
           (!dense->shape || dense->shape->empty());
  }
}

template <class Value>
constexpr std::string_view kind() {
  if constexpr (std::is_same_v<Value, at::Tensor>) return "a dense tensor";
  if constexpr (std::is_same_v<Value, Ragged>) return "a ragged tensor";
  if constexpr (std::is_same_v<Value, Sparse>) return "a sparse tensor";
  if constexpr (std::is_same_v<Value, Bytes>) return "strings";
  if constexpr (kIsString<Value>) return "a single string";
  return "a scalar of the field's type";
}

/// Whether a struct says which fields it has.
template <class Row>
constexpr bool kNamesFields = requires { Row::fields(); };

/// Whether `Fields`, a tuple, has views of strings, which live in the element that they were read from.
template <class Fields>
constexpr bool kViews = false;
template <class Row, class... Values>
constexpr bool kViews<std::tuple<Field<Row, Values>...>> = (std::is_same_v<Values, std::string_view> || ...);
template <class Row>
constexpr bool kHasViews = kViews<decltype(Row::fields())>;

/// `leaf` as a value of the field; a view of a string lives as long as the leaf.
template <class Value>
void assign(Value& value, const Leaf& leaf) {
  if constexpr (std::is_same_v<Value, Ragged> || std::is_same_v<Value, Sparse> ||
                std::is_same_v<Value, Bytes> || std::is_same_v<Value, at::Tensor>) {
    value = std::get<Value>(leaf);
  } else if constexpr (kIsString<Value>) {
    value = std::get<Bytes>(leaf)[0];
  } else {
    value = *std::get<at::Tensor>(leaf).template const_data_ptr<Value>();
  }
}

}  // namespace typed

/// Turns elements of one spec into structs. A value; safe from any thread.
template <class Row>
class RowReader {
  static_assert(typed::kNamesFields<Row>,
                "as: the struct must name its fields: `static auto fields() { return "
                "tdi::fields(tdi::field(\"image\", &Example::image)); }`");

 public:
  /// Throws c10::ValueError unless `spec` is a dict in which every field of `Row` finds a leaf that fits;
  /// other keys are ignored.
  explicit RowReader(const ElementSpec& spec) {
    TORCH_CHECK_VALUE(spec.structure->kind() == Structure::Kind::kDict,
                      "as: the elements must be dicts, but are ", spec.structure->str(), ".");
    std::apply([&](const auto&... one) { (bind(spec, one), ...); }, Row::fields());
  }

  /// The element as a struct, whose tensors share the memory of the element, and whose views of strings live
  /// as long as `element`. REQUIRES: `element` has the spec that this reader was made with.
  Row operator()(const Element& element) const {
    Row row{};
    std::size_t next = 0;
    std::apply(
        [&](const auto&... one) {
          (typed::assign(row.*one.member, element.leaves().at(leaves_[next++])), ...);
        },
        Row::fields());
    return row;
  }
  /// Views would outlive a temporary element: give it a name, or make the field a std::string.
  Row operator()(const Element&& element) const
    requires typed::kHasViews<Row>
  = delete;

 private:
  template <class Value>
  void bind(const ElementSpec& spec, const Field<Row, Value>& one) {
    const Structure& structure = *spec.structure;
    std::size_t leaf = 0;
    for (std::size_t child = 0; child < structure.keys().size(); ++child) {
      const Structure& part = *structure.children()[child];
      if (structure.keys()[child] != one.key) {
        leaf += static_cast<std::size_t>(part.leaf_count());
        continue;
      }
      TORCH_CHECK_VALUE(part.kind() == Structure::Kind::kLeaf, "as: `", one.key,
                        "` must be one leaf, but is ", part.str(), ".");
      TORCH_CHECK_VALUE(typed::fits<Value>(spec.leaves[leaf]), "as: `", one.key, "` must be ",
                        typed::kind<Value>(), ", but is ", to_string(spec.leaves[leaf]), ".");
      leaves_.push_back(leaf);
      return;
    }
    TORCH_CHECK_VALUE(false, "as: the elements must have a key `", one.key, "`, but are ", structure.str(),
                      ".");
  }

  std::vector<std::size_t> leaves_;  ///< of each field
};

/// The elements of one epoch as structs, for range-for: an input iterator, as `Dataset::const_iterator`. A
/// struct is valid until `++`; copies of its tensors stay valid, and so does `*` of a temporary, which is for
/// structs without views.
template <class Row>
class TypedDataset {
 public:
  explicit TypedDataset(Dataset dataset) : dataset_(std::move(dataset)), read_(dataset_.element_spec()) {}

  class const_iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Row;
    using difference_type = std::ptrdiff_t;
    using pointer = const Row*;
    using reference = const Row&;
    const_iterator() = default;
    const_iterator(Dataset::const_iterator element, RowReader<Row> read)
        : element_(std::move(element)), read_(std::move(read)) {
      look();
    }
    const Row& operator*() const& { return *row_; }
    Row operator*() const&&
      requires(!typed::kHasViews<Row>)
    {
      return *row_;
    }
    Row operator*() const&&
      requires typed::kHasViews<Row>
    = delete;
    const Row* operator->() const { return &*row_; }
    const_iterator& operator++() {
      row_.reset();
      ++element_;
      look();
      return *this;
    }
    bool operator==(const const_iterator& other) const { return row_.has_value() == other.row_.has_value(); }

   private:
    void look() {
      if (element_ != Dataset::const_iterator()) row_.emplace((*read_)(*element_));
    }

    Dataset::const_iterator element_;
    std::optional<RowReader<Row>> read_;
    std::optional<Row> row_;
  };
  /// Opens an iterator over the next epoch.
  const_iterator begin() const { return {dataset_.begin(), read_}; }
  const_iterator end() const { return {}; }

 private:
  Dataset dataset_;
  RowReader<Row> read_;
};

/// The elements of `dataset`, which are dicts, as structs that name their fields. Throws c10::ValueError
/// naming a field that finds no leaf, or one of another type; may run functions on the first element, as
/// `Dataset::element_spec`.
template <class Row>
TypedDataset<Row> as(Dataset dataset) {
  return TypedDataset<Row>(std::move(dataset));
}

}  // namespace torch_distinput
