// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
/// Ops that must see a row to know their spec, where the first rows fail.
#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

Element need(std::int64_t least, Element element) {
  if (scalar(element) < least) C10_THROW_ERROR(IndexError, "row " + std::to_string(scalar(element)));
  return element;
}

/// `range(size)` through a map that fails on all elements below `least`.
Dataset late(std::int64_t size, std::int64_t least) {
  return Dataset::range(size).map([least](Element element) { return need(least, std::move(element)); });
}

class LateRows final : public RowSource {
 public:
  explicit LateRows(std::int64_t least) : least_(least) {}
  std::int64_t size() const override { return 9; }
  std::string name() const override { return "LateRows"; }
  std::vector<Element> rows(std::span<const std::int64_t> indices) const override {
    std::vector<Element> rows;
    for (const std::int64_t index : indices)
      rows.push_back(need(least_, Element(at::scalar_tensor(index, at::kLong))));
    return rows;
  }

 private:
  std::int64_t least_;
};

c10::ScalarType dtype_of(const Dataset& dataset) {
  return std::get<TensorSpec>(dataset.node()->spec()->leaves.front()).dtype;
}

TEST(FirstRow, TheSpecIsThatOfTheFirstRowThatDoesNotFail) {
  EXPECT_EQ(dtype_of(late(10, 3)), at::kLong);
  EXPECT_EQ(dtype_of(Dataset::from_rows(std::make_shared<LateRows>(3))), at::kLong);
  const auto alone = [](const Element& element) { return Dataset::from_tensors(need(3, element)); };
  EXPECT_EQ(dtype_of(Dataset::range(10).flat_map(alone)), at::kLong);
}

TEST(FirstRow, TheIteratorStillReportsTheFailure) {
  EXPECT_EQ(message_of<c10::IndexError>([] { values(late(10, 3).batch(2)); }),
            "row 0 (map(function): element 0)");
}

TEST(FirstRow, WhereSeveralRowsFailTheFirstErrorIsThrown) {
  for (const std::int64_t size : {2, 5, 1000})
    EXPECT_EQ(message_of<c10::IndexError>([&] { late(size, size).node()->spec(); }),
              "row 0 (map(function): element 0)");
}

TEST(FirstRow, WithSkipAllFailingRowsBeforeItAreSkipped) {
  const auto last = [](Element element) { return need(900, std::move(element)); };
  EXPECT_EQ(dtype_of(Dataset::range(1000).with_options(skipping()).map(last)), at::kLong);
}

}  // namespace
}  // namespace torch_distinput
