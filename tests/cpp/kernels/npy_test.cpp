// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/npy.h"

#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "io/sample_files.h"

namespace torch_distinput {
namespace {

/// An array of float32 [2, 3] in column-major order.
std::string column_major() {
  std::string text = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }";
  text.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + text + "\n" + "aaaabbbbccccddddeeeeffff";
}

NpyHead head_of(std::string_view array) {
  const std::uint64_t size = npy_head_size(array.substr(0, kNpyPrefixBytes));
  if (size > array.size()) throw NpyError(array.size(), "the head is cut");
  return read_npy_head(array.substr(0, size), array.size());
}

TEST(Npy, ItemsInColumnMajorOrderAreCopiedRowByRow) {
  const std::string array = column_major();
  const NpyHead head = head_of(array);
  EXPECT_EQ(head.dtype, c10::kFloat);
  EXPECT_EQ(head.shape, (Dims{2, 3}));
  std::string items(24, ' ');
  copy_npy_items(head, std::string_view(array).substr(head.size), items.data());
  EXPECT_EQ(items, "aaaacccceeeebbbbddddffff");
}

/// Nothing but NpyError may come of damaged arrays; a sanitizer build sees accesses outside of them.
TEST(Npy, MutatedArraysAreReadOrRefused) {
  const std::string good = column_major();
  std::mt19937_64 random(11);
  int read = 0;
  for (int i = 0; i < files_testing::kMutations; ++i) {
    const std::string bad = files_testing::mutated(good, random);
    const std::vector<char> exact(bad.begin(), bad.end());
    const std::string_view array(exact.data(), exact.size());
    try {
      const NpyHead head = head_of(array);
      std::vector<char> items(array.size() - head.size);
      copy_npy_items(head, array.substr(head.size), items.data());
      ++read;
    } catch (const NpyError&) {
    }
  }
  EXPECT_GT(read, files_testing::kMutations / 100);
}

}  // namespace
}  // namespace torch_distinput
