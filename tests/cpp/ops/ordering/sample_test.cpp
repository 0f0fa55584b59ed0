// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>

#include "ops/op_testing.h"

namespace torch_distinput {
namespace {

using namespace op_testing;

at::Tensor weights_of(std::vector<double> values) { return at::tensor(values, at::kDouble); }

template <class Make>
std::string refusal(const Make& make) {
  return message_of<c10::ValueError>(make);
}

TEST(SampleRows, DrawsElementsByWeight) {
  const Dataset draws = Dataset::range(10, 14).sample(weights_of({1, 0, 2, 5}), 8000, {.seed = 3});
  const Values drawn = values(draws.batch(100));
  ASSERT_EQ(drawn.size(), 8000u);
  for (const auto& [value, share] :
       std::vector<std::pair<std::int64_t, double>>{{10, 1.0 / 8}, {11, 0.0}, {12, 2.0 / 8}, {13, 5.0 / 8}}) {
    const double most = 5 * std::sqrt(share * (1 - share) / 8000);
    EXPECT_NEAR(static_cast<double>(std::count(drawn.begin(), drawn.end(), value)) / 8000, share, most);
  }
}

TEST(SampleRows, WithoutReplacementDrawsEachElementOnce) {
  const Dataset all =
      Dataset::range(6).sample(weights_of({1, 2, 3, 0, 5, 6}), 5, {.replacement = false, .seed = 1});
  EXPECT_EQ(sorted(values(all)), Values({0, 1, 2, 4, 5}));
  const Dataset some =
      Dataset::range(6).sample(weights_of({1, 2, 3, 0, 5, 6}), 2, {.replacement = false, .seed = 1});
  const Values order = values(all);
  EXPECT_EQ(values(some), Values(order.begin(), order.begin() + 2));
}

TEST(SampleRows, DrawsAnewInEachEpochAndRound) {
  for (const bool replacement : {true, false}) {
    const Dataset drawn =
        Dataset::range(40).sample(at::ones({40}), 30, {.replacement = replacement, .seed = 2});
    EXPECT_EQ(values(drawn), values(drawn));
    EXPECT_NE(values(drawn), values(drawn, {.epoch = 1}));
    const Values rounds = values(drawn.repeat(2));
    EXPECT_NE(Values(rounds.begin(), rounds.begin() + 30), Values(rounds.begin() + 30, rounds.end()));
  }
}

TEST(SampleRows, KeepsTheWeightsThatItChecked) {
  const at::Tensor weights = weights_of({0, 1, 0});
  const Dataset dataset = Dataset::range(3).sample(weights, 4);
  weights.fill_(-1);
  EXPECT_EQ(values(dataset), Values({1, 1, 1, 1}));
}

TEST(SampleRows, TakesWeightsOfAnyRealType) {
  for (const auto dtype : {at::kFloat, at::kHalf, at::kLong, at::kBool}) {
    const Dataset dataset = Dataset::range(3).sample(weights_of({0, 1, 0}).to(dtype), 2);
    EXPECT_EQ(values(dataset), Values({1, 1}));
  }
}

TEST(SampleRows, KnowsItsLength) {
  EXPECT_EQ(Dataset::range(3).sample(at::ones({3}), 7).cardinality(), 7);
  EXPECT_EQ(Dataset::range(3).sample(at::ones({3}), 7).batch(2).cardinality(), 4);
}

TEST(SampleRows, RefusesBadWeights) {
  const Dataset three = Dataset::range(3);
  EXPECT_EQ(refusal([&] { three.sample(at::ones({2}), 1); }),
            "sample: `weights` must have one entry for each of the 3 elements, but has 2.");
  EXPECT_EQ(refusal([&] { three.sample(weights_of({1, -2, 1}), 1); }),
            "sample: `weights` must be finite and at least 0, but entry 1 is -2.");
  EXPECT_EQ(refusal([&] { three.sample(weights_of({1, 1, INFINITY}), 1); }),
            "sample: `weights` must be finite and at least 0, but entry 2 is inf.");
  EXPECT_EQ(refusal([&] { three.sample(weights_of({0, 0, 0}), 1); }), "sample: `weights` must not all be 0.");
  EXPECT_TRUE(has(message_of<c10::TypeError>([&] { three.sample(at::ones({3, 1}), 1); }), "one dimension"));
  EXPECT_EQ(refusal([&] { three.sample(at::ones({3}), 0); }),
            "sample: `num_samples` must be at least 1, but is 0.");
  EXPECT_EQ(refusal([&] { three.sample(weights_of({1, 0, 1}), 3, {.replacement = false}); }),
            "sample: `num_samples` without replacement must be at most the number of weights above 0, which "
            "is 2, but is 3.");
}

TEST(SampleRows, RefusesInputsThatCanOnlyBeReadInOrder) {
  EXPECT_TRUE(has(refusal([] { generated(3).sample(at::ones({3}), 1); }), "is unknown; sample before it"));
  EXPECT_TRUE(has(refusal([] { Dataset::range(3).repeat().sample(at::ones({3}), 1); }),
                  "is infinite; sample before"));
  const Dataset asserted = generated(3).assert_cardinality(3).sample(at::ones({3}), 1);
  EXPECT_TRUE(
      has(refusal([&] { asserted.iterate().next(); }), "can only be read in order; sample before it"));
}

TEST(SampleRows, DropsDrawsOfElementsThatFail) {
  const Dataset fails = Dataset::range(4).map(runs_user_code(fails_at(2))).with_options(skipping());
  const Values drawn = values(fails.sample(at::ones({4}), 200, {.seed = 1}));
  const Values all = values(Dataset::range(4).sample(at::ones({4}), 200, {.seed = 1}));
  Values expected;
  std::copy_if(all.begin(), all.end(), std::back_inserter(expected), [](auto value) { return value != 2; });
  EXPECT_EQ(drawn, expected);
}

TEST(SampleRows, WithOtherWeightsIsAnotherPipeline) {
  const Dataset one = Dataset::range(3).sample(weights_of({1, 2, 3}), 3);
  const Dataset other = Dataset::range(3).sample(weights_of({3, 2, 1}), 3);
  EXPECT_THROW(other.iterate().load(one.iterate().save()), c10::ValueError);
}

TEST(SampleRows, ObeysTheLaws) {
  const at::Tensor weights = at::arange(30, at::kDouble);
  for (const bool replacement : {true, false}) {
    const DrawOptions options{.replacement = replacement, .seed = 3};
    expect_laws(Dataset::range(30).sample(weights, 17, options));
    expect_laws(Dataset::range(30).sample(weights, 17, options).shuffle({.seed = 3}).batch(2));
    expect_laws(Dataset::range(120).batch(4).sample(weights, 9, options));
    expect_laws(Dataset::range(119).batch(4).sample(weights, 20, options).repeat(2).unbatch());
  }
}

}  // namespace
}  // namespace torch_distinput
