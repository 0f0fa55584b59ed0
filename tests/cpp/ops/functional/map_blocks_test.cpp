// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>

#include "ops/op_testing.h"
#include "torch_distinput/function.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// Doubles each element, and notes how many it got at once. Refuses `bad`.
class Doubles final : public Function {
 public:
  explicit Doubles(std::int64_t bad = -1) : bad_(bad) {}

  void apply(std::span<Element> elements) const override {
    sizes.push_back(std::ssize(elements));
    for (Element& element : elements) {
      if (scalar(element) == bad_) throw std::runtime_error("refused");
      element = element.tensor() * 2;
    }
  }
  bool runs_user_code() const override { return true; }

  mutable Values sizes;

 private:
  std::int64_t bad_;
};

Dataset mapped(const Dataset& input, FunctionPtr function, std::int64_t block) {
  return input.map(
      std::move(function),
      {.element_spec = ElementSpec{Structure::leaf(), {TensorSpec{Dims{}, at::kLong}}}, .block = block});
}

TEST(MapBlocks, ASequentialInputIsHandedOverInBlocks) {
  const auto doubles = std::make_shared<Doubles>();
  EXPECT_EQ(values(mapped(generated(10), doubles, 4)), values(Dataset::range(0, 20, 2)));
  EXPECT_EQ(doubles->sizes, Values({4, 4, 2}));
}

TEST(MapBlocks, APlanIsReadInBlocksOnceItsElementsAreMeasured) {
  const auto doubles = std::make_shared<Doubles>();
  EXPECT_EQ(values(mapped(Dataset::range(10), doubles, 4)), values(Dataset::range(0, 20, 2)));
  EXPECT_EQ(doubles->sizes, Values({1, 4, 4, 1}));
}

TEST(MapBlocks, ABatchHandsOverItsRows) {
  const auto doubles = std::make_shared<Doubles>();
  EXPECT_EQ(elements(mapped(Dataset::range(5), doubles, 4).batch(3)),
            (std::vector<Values>{{0, 2, 4}, {6, 8}}));
  EXPECT_EQ(doubles->sizes, Values({3, 2}));
}

TEST(MapBlocks, NothingIsReadAheadWhereThePipelineSaysSo) {
  const auto doubles = std::make_shared<Doubles>();
  EXPECT_EQ(values(mapped(Dataset::range(3), doubles, 4).with_options({.prefetch = 0})), Values({0, 2, 4}));
  EXPECT_EQ(doubles->sizes, Values({1, 1, 1}));
}

TEST(MapBlocks, TheElementsBeforeOneThatFailsAreDelivered) {
  for (const Dataset& input : {generated(10), Dataset::range(10)}) {
    DatasetIterator iterator = mapped(input, std::make_shared<Doubles>(5), 4).iterate();
    for (std::int64_t number = 0; number < 5; ++number) EXPECT_EQ(scalar(*iterator.next()), 2 * number);
    EXPECT_EQ(message_of<UserCodeError>([&] { iterator.next(); }), "map(function): element 5: refused");
  }
}

TEST(MapBlocks, OnlyTheElementThatFailsIsSkipped) {
  const Dataset dataset = mapped(generated(10), std::make_shared<Doubles>(5), 4).with_options(skipping());
  EXPECT_EQ(values(dataset), Values({0, 2, 4, 6, 8, 12, 14, 16, 18}));
}

TEST(MapBlocks, RefusesABlockOfNoElement) {
  EXPECT_EQ(message_of<c10::ValueError>([] { mapped(Dataset::range(3), std::make_shared<Doubles>(), 0); }),
            "map: `block` must be at least 1, but is 0.");
}

TEST(MapBlocks, ObeysTheLaws) {
  for (const std::int64_t block : {2, 3, 20}) {
    expect_laws(mapped(Dataset::range(11).shuffle({.seed = 3}), std::make_shared<Doubles>(), block));
    expect_laws(mapped(generated(11), std::make_shared<Doubles>(), block));
  }
}

}  // namespace
}  // namespace torch_distinput
