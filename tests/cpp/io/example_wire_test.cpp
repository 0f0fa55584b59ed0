// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/example_wire.h"

#include "io/sample_files.h"

namespace torch_distinput {
namespace {

using namespace files_testing;

std::string wire_field(std::uint32_t number, const std::string& body) {
  std::string text;
  WireWriter(text).bytes(number, body);
  return text;
}

std::string wire_entry(const std::string& key, const std::string& feature) {
  return wire_field(1, wire_field(1, key) + wire_field(2, feature));
}

const std::string kInts =
    wire_field(3, wire_field(1, std::string("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11)));
const std::string kFloats = wire_field(2, wire_field(1, std::string(12, '\x40')));
const std::string kStrings = wire_field(1, wire_field(1, "one") + wire_field(1, ""));
const std::string kSampleExample =
    wire_field(1, wire_entry("i", kInts) + wire_entry("other", kInts) + wire_entry("f", kFloats) +
                      wire_entry("b", kStrings) + wire_entry("none", ""));

TEST(ExampleWire, FindsListsByKey) {
  const FeatureFinder finder({"b", "i", "missing", "none", "f"});
  std::vector<WireList> found(finder.size());
  ASSERT_TRUE(finder.find(kSampleExample, found));
  EXPECT_EQ(found[0].kind, ListKind::kBytes);
  EXPECT_EQ(found[2].kind, ListKind::kNone);
  EXPECT_EQ(found[3].kind, ListKind::kNone);
  std::vector<std::int64_t> ints(3);
  EXPECT_EQ(read_values(found[1].body, ints.data(), 3), 2);
  EXPECT_EQ(ints, (std::vector<std::int64_t>{1, -1, 0}));
  float value = 0;
  EXPECT_EQ(read_values(found[4].body, &value, 1), 3);
  EXPECT_NE(value, 0);
}

TEST(ExampleWire, OfFeaturesWithOneKeyTheLastCounts) {
  const FeatureFinder finder({"x"});
  WireList found;
  ASSERT_TRUE(finder.find(wire_field(1, wire_entry("x", kInts) + wire_entry("x", kFloats)), {&found, 1}));
  EXPECT_EQ(found.kind, ListKind::kFloat);
}

/// Each buffer has exactly the size of the input, so that a sanitizer sees any access outside of it.
TEST(ExampleWire, MutatedMessagesAreReadOrRefused) {
  const FeatureFinder finder({"i", "f", "b"});
  const std::string sequences =
      wire_field(1, wire_entry("i", kInts)) +
      wire_field(2, wire_entry("f", wire_field(1, kFloats) + wire_field(1, kFloats)));
  std::mt19937_64 random(8);
  int refused = 0;
  std::int64_t values = 0;
  for (int i = 0; i < kMutations; ++i) {
    const std::string bad = mutated(i % 2 == 0 ? kSampleExample : sequences, random);
    const std::vector<char> exact(bad.begin(), bad.end());
    const std::string_view message(exact.data(), exact.size());
    std::vector<WireList> found(finder.size());
    std::vector<std::optional<std::string_view>> lists(finder.size());
    const bool read = i % 2 == 0 ? finder.find(message, found)
                                 : FeatureFinder::find_sequences(finder, finder, message, found, lists);
    if (!read) {
      ++refused;
      continue;
    }
    for (const WireList& list : found) {
      std::vector<std::int64_t> ints(2);
      std::vector<float> floats(2);
      values += read_values(list.body, ints.data(), 2) + read_values(list.body, floats.data(), 2);
      values += for_strings(list.body,
                            [&](std::string_view text) { values += static_cast<std::int64_t>(text.size()); });
    }
  }
  EXPECT_GT(refused, kMutations / 10);
  EXPECT_GT(values, 0);
}

}  // namespace
}  // namespace torch_distinput
