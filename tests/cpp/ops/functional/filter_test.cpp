// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/ones.h>

#include "ops/op_testing.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

bool is_even(const Element& element) { return scalar(element) % 2 == 0; }

TEST(Filter, KeepsElementsForWhichThePredicateIsTrue) {
  EXPECT_EQ(values(Dataset::range(7).filter(is_even)), Values({0, 2, 4, 6}));
  EXPECT_EQ(values(generated(7).filter(is_even)), Values({0, 2, 4, 6}));
}

TEST(Filter, MayKeepNothing) {
  EXPECT_EQ(values(Dataset::range(7).filter([](const Element&) { return false; })), Values());
}

TEST(Filter, DoesNotChangeElements) {
  const FunctionPtr predicate = make_function([](Element) { return Element(at::ones({}, at::kBool)); });
  EXPECT_EQ(values(Dataset::range(3).filter(predicate)), numbers(0, 3));
}

TEST(Filter, HasUnknownCardinalityAndTheSpecOfItsInput) {
  const Dataset filtered = Dataset::range(8).batch(4).filter([](const Element&) { return true; });
  EXPECT_EQ(filtered.cardinality(), kUnknownCardinality);
  EXPECT_EQ(filtered.node()->batch_size(), 4);
  EXPECT_EQ(to_string(filtered.element_spec()), "TensorSpec(shape=(None,), dtype=torch.int64)");
}

TEST(Filter, RefusesAnAnswerThatIsNoBool) {
  const FunctionPtr identity = make_function([](Element element) { return element; }, "is_good");
  DatasetIterator iterator = Dataset::range(3).filter(identity).iterate();
  EXPECT_EQ(message_of<c10::TypeError>([&] { iterator.next(); }),
            "filter(is_good): element 0: the predicate must return one bool scalar, but returned "
            "TensorSpec(shape=(), "
            "dtype=torch.int64).");
}

TEST(Filter, RefusesSeveralBools) {
  const FunctionPtr many = make_function([](Element) { return Element(at::ones({2}, at::kBool)); });
  DatasetIterator iterator = Dataset::range(3).filter(many).iterate();
  EXPECT_TRUE(has(message_of<c10::TypeError>([&] { iterator.next(); }), "shape=(2,)"));
}

TEST(Filter, ThrowsErrorsOfThePredicate) {
  const auto fail = [](const Element&) -> bool { throw std::runtime_error("no answer"); };
  DatasetIterator iterator = Dataset::range(3).filter(fail).iterate();
  EXPECT_THROW(iterator.next(), UserCodeError);
}

TEST(Filter, UnderSkipDropsRowsThatFailAndCountsThem) {
  const Dataset dataset = Dataset::range(8)
                              .filter([](const Element& element) {
                                TORCH_CHECK(scalar(element) != 4, "no answer");
                                return is_even(element);
                              })
                              .with_options(skipping());
  DatasetIterator iterator = dataset.iterate();
  EXPECT_EQ(elements(iterator), (std::vector<Values>{{0}, {2}, {6}}));
  EXPECT_EQ(iterator.stats().skipped, 1);
}

TEST(Filter, ObeysTheLaws) {
  expect_laws(Dataset::range(9).filter(is_even));
  expect_laws(generated(9).filter(is_even));
  expect_laws(Dataset::range(9).shuffle().filter(is_even).batch(2));
}

}  // namespace
}  // namespace torch_distinput
