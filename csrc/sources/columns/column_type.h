// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "torch_distinput/columns.h"
#include "torch_distinput/spec.h"
#include "torch_distinput/structure.h"

namespace torch_distinput {

/// The type of a column and of what it is nested in, read from an ArrowSchema.
struct ColumnType {
  enum class Kind { kNumber, kBool, kString, kStringView, kFixedBytes, kFixedList, kList, kStruct };

  Kind kind = Kind::kNumber;
  std::string name;    ///< as in the schema
  std::string path;    ///< with the names of the structs around it, for messages: `a.b`
  std::string format;  ///< of the schema, such as `tdD`
  NullRule nulls;

  c10::ScalarType stored = at::kLong;   ///< kNumber: the type of the numbers in memory
  c10::ScalarType dtype = at::kLong;    ///< kNumber and kBool: the type that they become
  std::int64_t size = 0;                ///< kFixedBytes: bytes; kFixedList: items
  bool utf8 = false;                    ///< kString, kStringView
  bool wide = false;                    ///< kString, kList: offsets of 64 bits
  std::vector<ColumnType> children;     ///< kStruct; one for lists
  std::shared_ptr<ColumnType> indices;  ///< the type of the indices where values lie in a dictionary

  bool operator==(const ColumnType&) const = delete;
};

/// A table's columns, and the type of the elements that its rows become.
struct TableType {
  ColumnType root;     ///< kStruct for a table
  ElementSpec stored;  ///< a row of a block as `import_block` makes it
};

/// Reads `schema`. Throws c10::TypeError naming `op` and the column for a type that no leaf can hold, and
/// c10::ValueError for a name that occurs twice and for options about columns that are not there.
TableType table_type(const ArrowSchema& schema, const ColumnOptions& options, const std::string& op);

/// Throws InvalidArgumentError naming `place` and the first column of `schema` whose type is not that in
/// `expected`.
void check_same_schema(const ArrowSchema& schema, const TableType& expected, const std::string& place);

}  // namespace torch_distinput
