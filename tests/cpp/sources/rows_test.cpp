// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/fakes.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

/// A source with the given elements as rows. With `lose_one`, each call returns one row too few.
class GivenRows final : public RowSource {
 public:
  explicit GivenRows(std::vector<Element> rows, bool lose_one = false)
      : rows_(std::move(rows)), lose_one_(lose_one) {}
  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }
  std::vector<Element> rows(std::span<const std::int64_t> positions) const override {
    std::vector<Element> result;
    for (const std::int64_t position : positions) result.push_back(rows_[static_cast<std::size_t>(position)]);
    if (lose_one_) result.pop_back();
    return result;
  }

 private:
  std::vector<Element> rows_;
  bool lose_one_;
};

TEST(FromRows, YieldsTheRowsInOrder) {
  const Dataset dataset = Dataset::from_rows(std::make_shared<fakes::Rows>(5));
  EXPECT_EQ(dataset.cardinality(), 5);
  EXPECT_EQ(elements(dataset.batch(2)), (std::vector<Values>{{0, 1}, {2, 3}, {4}}));
}

TEST(FromRows, ProbesRowZeroForItsSpec) {
  const auto source = std::make_shared<GivenRows>(std::vector<Element>{at::zeros({2, 3}), at::zeros({4, 3})});
  const ElementSpec spec = Dataset::from_rows(source).element_spec();
  EXPECT_EQ(to_string(spec), "TensorSpec(shape=(None, None), dtype=torch.float32)");
  EXPECT_EQ(std::get<TensorSpec>(spec.leaves[0]).expected, (Dims{2, 3}));
}

TEST(FromRows, IteratesWithoutProbing) {
  const auto source = std::make_shared<fakes::Rows>(3);
  collect(Dataset::from_rows(source), {.epoch = 0, .stream_only = true});
  EXPECT_EQ(source->reads(), 3);
  EXPECT_TRUE(collect(Dataset::from_rows(std::make_shared<fakes::Rows>(0))).empty());
}

TEST(FromRows, NamesTheRowOfAnotherType) {
  const auto source =
      std::make_shared<GivenRows>(std::vector<Element>{at::zeros({2}), at::zeros({2}, at::kInt)});
  EXPECT_EQ(message_of<c10::ValueError>([&] { collect(Dataset::from_rows(source)); }),
            "from_rows: element 1: the element: expected TensorSpec(shape=None, dtype=torch.float32), got "
            "TensorSpec(shape=(2,), dtype=torch.int32).");
}

TEST(FromRows, RefusesASourceThatReturnsTooFewRows) {
  const auto source = std::make_shared<GivenRows>(std::vector<Element>{at::zeros({2}), at::zeros({2})}, true);
  EXPECT_EQ(message_of<c10::ValueError>([&] { collect(Dataset::from_rows(source).batch(2)); }),
            "from_rows: rows was asked for 2 rows, but returned 1.");
}

TEST(FromRows, SkipsRowsThatFailIfTheOptionsSaySo) {
  const Dataset dataset =
      Dataset::from_rows(std::make_shared<fakes::Rows>(7, std::set<std::int64_t>{0, 3, 6}))
          .batch(3)
          .with_options(skipping());
  DatasetIterator iterator = dataset.iterate();
  EXPECT_EQ(elements(iterator), (std::vector<Values>{{1, 2, 4}, {5}}));
  EXPECT_EQ(iterator.stats().skipped, 3);
  testing::assert_resumable(dataset);
}

TEST(FromRows, ObeysTheLaws) { expect_laws(Dataset::from_rows(std::make_shared<fakes::Rows>(11)).batch(3)); }

}  // namespace
}  // namespace torch_distinput
