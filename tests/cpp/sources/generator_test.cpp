// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// A source of the int64 scalars 0, 1, ... and then of `last`.
std::shared_ptr<fakes::Generators> counting(std::int64_t count, const std::vector<Element>& last = {}) {
  std::vector<Element> elements = collect(Dataset::range(count));
  elements.insert(elements.end(), last.begin(), last.end());
  return std::make_shared<fakes::Generators>(elements);
}

Dataset generated_from(const std::shared_ptr<fakes::Generators>& source) {
  return Dataset::from_generator(source, ElementSpec{Structure::leaf(), {TensorSpec{Dims{}, at::kLong}}});
}

TEST(FromGenerator, IsOpenedByEachIteratorThatReads) {
  const auto source = counting(3);
  const Dataset dataset = generated_from(source);
  const DatasetIterator idle = dataset.iterate();
  EXPECT_EQ(source->opened(), 0);
  EXPECT_EQ(elements(dataset), (std::vector<Values>{{0}, {1}, {2}}));
  EXPECT_EQ(elements(dataset), (std::vector<Values>{{0}, {1}, {2}}));
  EXPECT_EQ(source->opened(), 2);
}

TEST(FromGenerator, HasAnUnknownLength) {
  EXPECT_EQ(generated_from(counting(3)).cardinality(), kUnknownCardinality);
}

TEST(FromGenerator, NamesTheElementThatBreaksTheSpec) {
  const Dataset dataset = generated_from(counting(2, {at::zeros({3})}));
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

TEST(FromGenerator, ResumesByRunningAgain) { testing::assert_resumable(generated_from(counting(7))); }

TEST(FromGenerator, SaysWhenARunEndsBeforeTheSavedPosition) {
  DatasetIterator longer = generated_from(counting(5)).iterate();
  for (int i = 0; i < 4; ++i) longer.next();
  DatasetIterator shorter = generated_from(counting(3)).iterate();
  EXPECT_EQ(message_of<c10::ValueError>([&] { shorter.load(longer.save()); }),
            "from_generator: the saved position is after element 3, but the generator ended after 3; it must "
            "yield the same elements again.");
}

}  // namespace
}  // namespace torch_distinput
