// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/columns/block_parts.h"

#include <set>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

using Rows = std::vector<std::int64_t>;

/// Makes parts of rows of which those of `bad` cannot be made, and counts how often.
struct Maker {
  std::set<std::int64_t> bad;
  int* calls;

  BlockPtr operator()(std::int64_t begin, std::int64_t end) const {
    ++*calls;
    for (std::int64_t row = begin; row < end; ++row) {
      if (bad.contains(row)) throw std::runtime_error("row " + std::to_string(row));
    }
    return std::make_shared<const RowBlock>(RowBlock{Element(), end - begin});
  }
};

/// The rows of `parts`, and those whose errors were thrown as -1 - row.
Rows read(BlockParts parts) {
  Rows rows;
  while (true) {
    try {
      const auto part = parts.next();
      if (!part) return rows;
      for (std::int64_t row = 0; row < part->rows->rows; ++row) rows.push_back(part->begin + row);
    } catch (const std::runtime_error& error) {
      rows.push_back(-1 - std::stoll(std::string(error.what()).substr(4)));
    }
  }
}

TEST(BlockParts, EachBadRowIsAnErrorOfItsOwnInItsPlace) {
  for (const std::set<std::int64_t>& bad :
       {std::set<std::int64_t>{}, {0}, {9}, {4}, {0, 9}, {3, 4, 5}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}) {
    for (const std::int64_t begin : {0, 3, 9, 10}) {
      int calls = 0;
      Rows wanted;
      for (std::int64_t row = begin; row < 10; ++row) wanted.push_back(bad.contains(row) ? -1 - row : row);
      EXPECT_EQ(read({begin, 10, Maker{bad, &calls}}), wanted);
    }
  }
}

TEST(BlockParts, ABadRowIsFoundInALogarithmOfCalls) {
  int calls = 0;
  EXPECT_EQ(read({0, 1 << 20, Maker{{777'777}, &calls}}).size(), std::size_t{1} << 20);
  EXPECT_LE(calls, 2 * 20 + 1);
}

}  // namespace
}  // namespace torch_distinput
