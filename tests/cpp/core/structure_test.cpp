// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "torch_distinput/structure.h"

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

namespace torch_distinput {
namespace {

StructurePtr sample_structure() {
  return Structure::dict({"x", "y"},
                         {Structure::leaf(), Structure::tuple({Structure::leaf(), Structure::none()})});
}

TEST(Structure, EqualStructuresAreOnePointer) {
  EXPECT_EQ(sample_structure(), sample_structure());
  EXPECT_NE(sample_structure(), Structure::tuple({Structure::leaf()}));
  EXPECT_NE(Structure::tuple({Structure::leaf()}), Structure::list({Structure::leaf()}));
}

TEST(Structure, PointersShareNoCount) {
  EXPECT_EQ(Structure::leaf().use_count(), 0);
  EXPECT_EQ(sample_structure().use_count(), 0);
}

TEST(Structure, KeysTellDictsApart) {
  const auto a = Structure::dict({"ab", "c"}, {Structure::leaf(), Structure::leaf()});
  const auto b = Structure::dict({"a", "bc"}, {Structure::leaf(), Structure::leaf()});
  EXPECT_NE(a, b);
}

TEST(Structure, NamedTuplesOfDifferentClassesDiffer) {
  const auto type_a = std::make_shared<int>(1);
  const auto type_b = std::make_shared<int>(1);
  const auto make = [](std::shared_ptr<void> type) {
    return Structure::named_tuple("Point", {"x"}, {Structure::leaf()}, std::move(type));
  };
  EXPECT_EQ(make(type_a), make(type_a));
  EXPECT_NE(make(type_a), make(type_b));
}

TEST(Structure, NamesTellNamedTuplesOfOneClassApart) {
  const auto make = [](const char* name) {
    return Structure::named_tuple(name, {"x"}, {Structure::leaf()}, nullptr);
  };
  EXPECT_EQ(make("Point"), make("Point"));
  EXPECT_NE(make("Point"), make("Pixel"));
}

TEST(Structure, ManyOfThemInTurnStayOnePointerEach) {
  std::vector<StructurePtr> first;
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 20; ++i) {
      const auto leaf = Structure::leaf();
      const auto inner = Structure::tuple(std::vector<StructurePtr>(static_cast<std::size_t>(i % 5), leaf));
      const auto outer = Structure::dict({"k" + std::to_string(i / 5)}, {inner});
      if (round == 0) {
        EXPECT_EQ(std::count(first.begin(), first.end(), outer), 0);
        first.push_back(outer);
      }
      EXPECT_EQ(outer, first[static_cast<std::size_t>(i)]);
    }
  }
}

TEST(Structure, CountsAndNamesLeaves) {
  EXPECT_EQ(sample_structure()->leaf_count(), 2);
  EXPECT_EQ(sample_structure()->leaf_path(0), "['x']");
  EXPECT_EQ(sample_structure()->leaf_path(1), "['y'][0]");
  EXPECT_EQ(Structure::leaf()->leaf_path(0), "");
  EXPECT_THROW(sample_structure()->leaf_path(2), c10::IndexError);
}

TEST(Structure, PrintsAsPythonDoes) {
  EXPECT_EQ(sample_structure()->str(), "{'x': *, 'y': (*, None)}");
  EXPECT_EQ(Structure::tuple({Structure::leaf()})->str(), "(*,)");
  EXPECT_EQ(Structure::list({})->str(), "[]");
}

TEST(Structure, RejectsRepeatedKeys) {
  EXPECT_THROW(Structure::dict({"a", "a"}, {Structure::leaf(), Structure::leaf()}), c10::ValueError);
}

TEST(Structure, InternsFromManyThreads) {
  std::vector<StructurePtr> built(8);
  std::vector<std::thread> threads;
  for (auto& slot : built) {
    threads.emplace_back(
        [&slot] { slot = Structure::list({Structure::none(), sample_structure(), sample_structure()}); });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& structure : built) EXPECT_EQ(structure, built.front());
}

}  // namespace
}  // namespace torch_distinput
