// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "support/elements.h"
#include "support/errors.h"
#include "support/fakes.h"
#include "torch_distinput/testing.h"

namespace torch_distinput {
namespace {

using Values = std::vector<std::int64_t>;

std::vector<Element> numbers(std::int64_t count) {
  std::vector<Element> elements;
  for (std::int64_t i = 0; i < count; ++i) elements.emplace_back(at::scalar_tensor(i, at::kLong));
  return elements;
}

ElementSpec int_scalar() { return {Structure::leaf(), {TensorSpec{Dims{}, at::kLong, {}}}}; }

TEST(FromGenerator, IsOpenedByEachIteratorThatReads) {
  const auto source = std::make_shared<fakes::Generators>(numbers(3));
  const Dataset dataset = Dataset::from_generator(source, int_scalar());
  const DatasetIterator idle = dataset.iterate();
  EXPECT_EQ(source->opened(), 0);
  EXPECT_EQ(collect_items(dataset), (std::vector<Values>{{0}, {1}, {2}}));
  EXPECT_EQ(collect_items(dataset), (std::vector<Values>{{0}, {1}, {2}}));
  EXPECT_EQ(source->opened(), 2);
}

TEST(FromGenerator, HasAnUnknownLength) {
  const Dataset dataset =
      Dataset::from_generator(std::make_shared<fakes::Generators>(numbers(3)), int_scalar());
  EXPECT_EQ(dataset.cardinality(), kUnknownCardinality);
}

TEST(FromGenerator, NamesTheElementThatBreaksTheSpec) {
  auto elements = numbers(2);
  elements.emplace_back(at::zeros({3}));
  const Dataset dataset =
      Dataset::from_generator(std::make_shared<fakes::Generators>(elements), int_scalar());
  EXPECT_EQ(message_of<c10::ValueError>([&] { collect(dataset); }),
            "from_generator: element 2: the element: expected TensorSpec(shape=(), dtype=torch.int64), got "
            "TensorSpec(shape=(3,), dtype=torch.float32).");
}

TEST(FromGenerator, WithoutASpecTakesDtypesFromTheFirstElement) {
  const std::vector<Element> elements{at::zeros({2}), at::zeros({5}), at::zeros({2}, at::kInt)};
  const Dataset dataset =
      Dataset::from_generator(std::make_shared<fakes::Generators>(elements), std::nullopt);
  const ElementSpec spec = dataset.element_spec();
  EXPECT_EQ(to_string(spec), "TensorSpec(shape=(None,), dtype=torch.float32)");
  EXPECT_EQ(std::get<TensorSpec>(spec.leaves[0]).expected, Dims{2});
  EXPECT_EQ(
      message_of<c10::ValueError>([&] { collect(dataset); }),
      "from_generator: element 2: the element: expected TensorSpec(shape=None, dtype=torch.float32), got "
      "TensorSpec(shape=(2,), dtype=torch.int32).");
}

TEST(FromGenerator, WithoutASpecOrAnElementHasNoSpec) {
  const Dataset empty =
      Dataset::from_generator(std::make_shared<fakes::Generators>(std::vector<Element>()), std::nullopt);
  EXPECT_THROW(empty.element_spec(), c10::ValueError);
  EXPECT_TRUE(collect(empty).empty());
}

TEST(FromGenerator, ResumesByRunningAgain) {
  testing::assert_resumable(
      Dataset::from_generator(std::make_shared<fakes::Generators>(numbers(7)), int_scalar()));
}

TEST(FromGenerator, SaysWhenARunEndsBeforeTheSavedPosition) {
  DatasetIterator longer =
      Dataset::from_generator(std::make_shared<fakes::Generators>(numbers(5)), int_scalar()).iterate();
  for (int i = 0; i < 4; ++i) longer.next();
  DatasetIterator shorter =
      Dataset::from_generator(std::make_shared<fakes::Generators>(numbers(3)), int_scalar()).iterate();
  EXPECT_EQ(message_of<c10::ValueError>([&] { shorter.load(longer.save()); }),
            "from_generator: the saved position is after element 3, but the generator ended after 3; it must "
            "yield the same elements again.");
}

}  // namespace
}  // namespace torch_distinput
