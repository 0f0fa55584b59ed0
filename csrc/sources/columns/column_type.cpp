// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/column_type.h"

#include <array>
#include <charconv>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include <c10/util/Exception.h>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using Kind = ColumnType::Kind;

struct NumberFormat {
  std::string_view format;
  c10::ScalarType stored;
  c10::ScalarType dtype;
};

// Dates, times and durations are counts since an origin; as numbers they are int64.
constexpr std::array kNumberFormats{
    NumberFormat{"c", at::kChar, at::kChar},     NumberFormat{"C", at::kByte, at::kByte},
    NumberFormat{"s", at::kShort, at::kShort},   NumberFormat{"S", at::kUInt16, at::kUInt16},
    NumberFormat{"i", at::kInt, at::kInt},       NumberFormat{"I", at::kUInt32, at::kUInt32},
    NumberFormat{"l", at::kLong, at::kLong},     NumberFormat{"L", at::kUInt64, at::kUInt64},
    NumberFormat{"e", at::kHalf, at::kHalf},     NumberFormat{"f", at::kFloat, at::kFloat},
    NumberFormat{"g", at::kDouble, at::kDouble}, NumberFormat{"tdD", at::kInt, at::kLong},
    NumberFormat{"tdm", at::kLong, at::kLong},   NumberFormat{"tts", at::kInt, at::kLong},
    NumberFormat{"ttm", at::kInt, at::kLong},    NumberFormat{"ttu", at::kLong, at::kLong},
    NumberFormat{"ttn", at::kLong, at::kLong},
};

std::optional<NumberFormat> number_format(std::string_view format) {
  for (const NumberFormat& known : kNumberFormats) {
    if (known.format == format) return known;
  }
  // Timestamps carry a time zone, durations a unit; both are 64 bits wide.
  if (format.starts_with("ts") || format.starts_with("tD")) return NumberFormat{format, at::kLong, at::kLong};
  return std::nullopt;
}

/// The name of a type that no leaf can hold.
std::string refused_name(std::string_view format) {
  if (format.starts_with("d:")) return "a decimal";
  if (format.starts_with("+ud") || format.starts_with("+us")) return "a union";
  if (format == "tiM" || format == "tiD" || format == "tin") return "an interval";
  if (format == "+m") return "a map";
  if (format == "+r") return "run-end encoded";
  if (format == "+vl" || format == "+vL") return "a list view";
  if (format == "n") return "null in all rows";
  return "of the unknown format '" + std::string(format) + "'";
}

class SchemaReader {
 public:
  SchemaReader(const ColumnOptions& options, std::string op) : options_(options), op_(std::move(op)) {}

  ColumnType read(const ArrowSchema& schema, const std::string& around, const NullRule* inherited) const {
    ColumnType type;
    type.name = schema.name == nullptr ? "" : schema.name;
    // The root of a table has no name in paths, even where its producer gives it one.
    const bool is_root = inherited == nullptr && std::string_view(schema.format) == "+s";
    if (!is_root) type.path = around.empty() ? type.name : around + "." + type.name;
    type.format = schema.format;
    type.nulls = rule(type.path, inherited);
    const ArrowSchema& values = schema.dictionary == nullptr ? schema : *schema.dictionary;
    if (schema.dictionary != nullptr) {
      const auto index = number_format(schema.format);
      TORCH_CHECK_TYPE(index && c10::isIntegralType(index->stored, false), about(type),
                       " has indices that are not integers.");
      type.indices = std::make_shared<ColumnType>();
      type.indices->stored = index->stored;
      type.format += std::string("[") + values.format + "]";
    }
    read_kind(values, type);
    const bool nests = type.kind == Kind::kStruct || type.kind == Kind::kList ||
                       type.kind == Kind::kFixedList || values.dictionary != nullptr;
    TORCH_CHECK_TYPE(!type.indices || !nests, about(type),
                     " has a dictionary of nested values, which no leaf can hold; cast it, or leave it out.");
    cast(type);
    return type;
  }

 private:
  std::string about(const ColumnType& type) const { return op_ + ": column '" + type.path + "'"; }

  NullRule rule(const std::string& path, const NullRule* inherited) const {
    const auto own = options_.nulls_of.find(path);
    if (own != options_.nulls_of.end()) return own->second;
    return inherited == nullptr ? options_.nulls : *inherited;
  }

  void cast(ColumnType& type) const {
    const auto wanted = options_.dtypes.find(type.path);
    if (wanted == options_.dtypes.end()) return;
    ColumnType* numbers = &type;
    while (numbers->kind == Kind::kFixedList || numbers->kind == Kind::kList) numbers = &numbers->children[0];
    TORCH_CHECK_TYPE(numbers->kind == Kind::kNumber || numbers->kind == Kind::kBool, about(type),
                     " cannot become ", dtype_name(wanted->second), ": it has no numbers.");
    numbers->dtype = wanted->second;
  }

  void read_kind(const ArrowSchema& schema, ColumnType& type) const {
    const std::string_view format = schema.format;
    if (const auto number = number_format(format)) {
      type.stored = number->stored;
      type.dtype = number->dtype;
    } else if (format == "b") {
      type.kind = Kind::kBool;
      type.dtype = at::kBool;
    } else if (format == "u" || format == "U" || format == "z" || format == "Z") {
      type.kind = Kind::kString;
      type.utf8 = format == "u" || format == "U";
      type.wide = format == "U" || format == "Z";
    } else if (format == "vu" || format == "vz") {
      type.kind = Kind::kStringView;
      type.utf8 = format == "vu";
    } else if (format.starts_with("w:")) {
      type.kind = Kind::kFixedBytes;
      type.size = number_after(format, 2, type);
    } else if (format.starts_with("+w:")) {
      type.kind = Kind::kFixedList;
      type.size = number_after(format, 3, type);
      add_children(schema, type);
    } else if (format == "+l" || format == "+L") {
      type.kind = Kind::kList;
      type.wide = format == "+L";
      add_children(schema, type);
    } else if (format == "+s") {
      type.kind = Kind::kStruct;
      add_children(schema, type);
    } else {
      C10_THROW_ERROR(TypeError, about(type) + " is " + refused_name(format) +
                                     ", which no leaf can hold; cast it, or leave it out.");
    }
    check_items(type);
  }

  std::int64_t number_after(std::string_view format, std::size_t begin, const ColumnType& type) const {
    std::int64_t number = -1;
    const auto end = std::from_chars(format.data() + begin, format.data() + format.size(), number).ptr;
    TORCH_CHECK_TYPE(number >= 0 && end == format.data() + format.size(), about(type),
                     " has the bad format '", format, "'.");
    return number;
  }

  void add_children(const ArrowSchema& schema, ColumnType& type) const {
    const bool is_struct = type.kind == Kind::kStruct;
    TORCH_CHECK_VALUE(is_struct || schema.n_children == 1, about(type), " is a list with ", schema.n_children,
                      " types of items.");
    for (std::int64_t i = 0; i < schema.n_children; ++i) {
      ColumnType& child =
          type.children.emplace_back(read(*schema.children[i], is_struct ? type.path : "", &type.nulls));
      if (!is_struct) child.path = type.path;
    }
  }

  /// Lists of what can be stacked: numbers, booleans, and strings where the number of items is fixed.
  void check_items(const ColumnType& type) const {
    if (type.kind != Kind::kFixedList && type.kind != Kind::kList) return;
    const ColumnType& items = type.children[0];
    const bool varying = type.kind == Kind::kList;
    const ColumnType* inner = &items;
    while (inner->kind == Kind::kFixedList) inner = &inner->children[0];
    const bool numbers = inner->kind == Kind::kNumber || inner->kind == Kind::kBool;
    const char* what = nullptr;
    if (inner->kind == Kind::kList) what = "lists that vary in length";
    if (inner->kind == Kind::kStruct) what = "structs";
    if (varying && !numbers && what == nullptr) what = "strings";
    TORCH_CHECK_TYPE(what == nullptr, about(type), " has lists ", varying ? "of varying length " : "", "of ",
                     what, ", which no leaf can hold; leave it out.");
  }

  const ColumnOptions& options_;
  std::string op_;
};

/// Adds the leaves of one column to `leaves`, and returns their structure.
StructurePtr add_leaves(const ColumnType& type, std::vector<LeafSpec>& leaves) {
  if (type.kind != Kind::kStruct) {
    Dims dims;
    const ColumnType* inner = &type;
    for (; inner->kind == Kind::kFixedList || inner->kind == Kind::kList; inner = &inner->children[0])
      dims.push_back(inner->kind == Kind::kList ? kUnknownDim : inner->size);
    if (inner->kind == Kind::kNumber || inner->kind == Kind::kBool) {
      leaves.emplace_back(TensorSpec{std::move(dims), inner->dtype, {}});
    } else {
      leaves.emplace_back(
          StringSpec{std::move(dims), inner->utf8 ? std::optional<std::string>("utf-8") : std::nullopt});
    }
    return Structure::leaf();
  }
  std::vector<std::string> keys;
  std::vector<StructurePtr> parts;
  for (const ColumnType& child : type.children) {
    keys.push_back(child.name);
    parts.push_back(add_leaves(child, leaves));
    if (child.nulls.kind != NullRule::Kind::kMask || child.kind == Kind::kStruct) continue;
    keys.push_back(child.name + "_valid");
    parts.push_back(Structure::leaf());
    leaves.emplace_back(TensorSpec{Dims{}, at::kBool, {}});
  }
  return Structure::dict(std::move(keys), std::move(parts));
}

void collect_paths(const ColumnType& type, std::map<std::string, const ColumnType*>& paths) {
  paths.emplace(type.path, &type);
  if (type.kind != Kind::kStruct) return;
  for (const ColumnType& child : type.children) collect_paths(child, paths);
}

/// Throws c10::ValueError for two leaves of one name.
void check_names(const ColumnType& type, const std::string& op) {
  if (type.kind != Kind::kStruct) return;
  std::set<std::string> names;
  for (const ColumnType& child : type.children) {
    TORCH_CHECK_VALUE(names.insert(child.name).second, op, ": column '", child.path, "' occurs twice.");
    check_names(child, op);
  }
  for (const ColumnType& child : type.children) {
    if (child.nulls.kind != NullRule::Kind::kMask || child.kind == Kind::kStruct) continue;
    TORCH_CHECK_VALUE(names.insert(child.name + "_valid").second, op, ": the mask of column '", child.path,
                      "' would have the name of the column '", child.name, "_valid'.");
  }
}

std::string types_text(const ColumnType& type) {
  std::string text = type.format;
  for (const ColumnType& child : type.children) text += "," + child.name + ":" + types_text(child);
  return text;
}

}  // namespace

TableType table_type(const ArrowSchema& schema, const ColumnOptions& options, const std::string& op) {
  TableType type{SchemaReader(options, op).read(schema, "", nullptr), {}};
  std::map<std::string, const ColumnType*> paths;
  // The root of a table has no name of its own: paths begin with the columns.
  if (type.root.kind == Kind::kStruct) {
    for (const ColumnType& child : type.root.children) collect_paths(child, paths);
  }
  for (const auto& [path, rule] : options.nulls_of)
    TORCH_CHECK_VALUE(paths.contains(path), op, ": `nulls` names the column '", path,
                      "', which is not there.");
  check_names(type.root, op);
  type.stored.structure = add_leaves(type.root, type.stored.leaves);
  TORCH_CHECK_VALUE(!type.stored.leaves.empty(), op, ": the table must have a column at least.");
  return type;
}

void check_same_schema(const ArrowSchema& schema, const TableType& expected, const std::string& place) {
  const ColumnType found = SchemaReader({}, place).read(schema, "", nullptr);
  const std::vector<ColumnType>&here = found.children, &first = expected.root.children;
  for (std::size_t i = 0; i < std::max(here.size(), first.size()); ++i) {
    if (i >= here.size()) throw InvalidArgumentError(place + ": column '" + first[i].path + "' is missing.");
    if (i >= first.size())
      throw InvalidArgumentError(place + ": column '" + here[i].path + "' is not in the first file.");
    if (here[i].name != first[i].name) {
      throw InvalidArgumentError(place + ": column " + std::to_string(i) + " is '" + here[i].path +
                                 "', but '" + first[i].path + "' in the first file.");
    }
    if (types_text(here[i]) != types_text(first[i])) {
      throw InvalidArgumentError(place + ": column '" + here[i].path + "' has the Arrow format '" +
                                 types_text(here[i]) + "', but '" + types_text(first[i]) +
                                 "' in the first file.");
    }
  }
  // Rows that are no structs have no columns.
  if (types_text(found) != types_text(expected.root)) {
    throw InvalidArgumentError(place + ": the rows have the Arrow format '" + types_text(found) + "', but '" +
                               types_text(expected.root) + "' in the first file.");
  }
}

}  // namespace torch_distinput
