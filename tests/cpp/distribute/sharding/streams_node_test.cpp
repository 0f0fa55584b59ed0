// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/sharding/streams_node.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include "distribute/distribute_testing.h"
#include "support/errors.h"

namespace torch_distinput {
namespace {

using op_testing::expect_laws;
using op_testing::values;
using Values = std::vector<std::int64_t>;

/// Streams of 16 numbers each.
StreamCutPtr cut_numbers(std::int64_t streams) {
  const Dataset rows = Dataset::range(16 * streams).filter([](const Element&) { return true; });
  return std::get<StreamCutPtr>(cut_streams(rows.batch(2).node()));
}

StreamStates streams(std::int64_t begin, std::int64_t end, std::int64_t count) {
  StreamStates states;
  states.begin = begin;
  states.end = end;
  states.count = count;
  return states;
}

Dataset merged(const StreamStates& start) { return Dataset(streams_node(cut_numbers(start.count), start)); }

IteratorPtr iterate(const StreamStates& start) {
  return merged(start).node()->iterate(
      epoch_context(make_execution_context({}), 0, 0, /*stream_only=*/false));
}

/// The states after `elements` elements.
StreamStates after(const StreamStates& start, std::size_t elements) {
  const IteratorPtr iterator = iterate(start);
  op_testing::elements(*iterator, elements);
  return read_streams(iterator->save().at("streams"), "test");
}

TEST(StreamsNode, FourStreamsTakeTurnsAndThoseThatFollowTakeTheirPlaces) {
  const Values all = values(merged(streams(0, 6, 6)));
  EXPECT_EQ(Values(all.begin(), all.begin() + 6), (Values{0, 16, 32, 48, 1, 17}));
  EXPECT_EQ(Values(all.begin() + 64, all.begin() + 68), (Values{64, 80, 65, 81}));
  EXPECT_EQ(all.size(), 96U);
}

TEST(StreamsNode, CanBeResumedFromAnyPosition) {
  expect_laws(merged(streams(1, 7, 7)));
  expect_laws(merged(streams(2, 2, 4)));
}

TEST(StreamsNode, MoreStreamsThatHaveBegunThanCanBeOpenGoOnToo) {
  StreamStates start = streams(0, 7, 7);
  for (const std::int64_t stream : {1, 2, 4, 5, 6})
    start.begun[stream] = {20 - stream, after(streams(stream, stream + 1, 7), 3).begun[stream].state};
  start.turns = 20;
  start.ended = {3};
  const auto whole = op_testing::elements(*iterate(start));
  ASSERT_EQ(whole.size(), 5U * 13 + 16);
  EXPECT_EQ(whole.front(), Values{5 * 16 + 3});  // of those that are open, the one that has waited longest
  for (std::size_t elements = 0; elements <= whole.size(); ++elements) {
    const IteratorPtr one = iterate(start);
    op_testing::elements(*one, elements);
    const IteratorPtr two = iterate(start);
    two->load(one->save());
    const std::vector<Values> rest(whole.begin() + static_cast<std::ptrdiff_t>(elements), whole.end());
    ASSERT_EQ(op_testing::elements(*two), rest) << elements;
  }
}

TEST(StreamsNode, AStateOfOtherStreamsIsRefused) {
  const IteratorPtr iterator = iterate(streams(0, 3, 6));
  const State other = State().set("streams", streams(3, 6, 6).write());
  EXPECT_TRUE(has(message_of<c10::ValueError>([&] { iterator->load(other); }),
                  "the state is of streams [3, 6) of 6, but here are [0, 3) of 6"));
}

TEST(StreamsNode, ADamagedStateIsRefusedByName) {
  const State good = after(streams(2, 7, 7), 75).write();  // one has ended
  EXPECT_EQ(read_streams(good, "test").write(), good);
  const auto refusal = [&](const char* field, const State& value) {
    return message_of<c10::ValueError>([&] { read_streams(State(good).set(field, value), "test"); });
  };
  EXPECT_TRUE(has(refusal("count", 1'000'000'000), "`count` must be in [0, 1048576]"));
  EXPECT_TRUE(has(refusal("count", 0), "`count` of streams must be at least 1"));
  EXPECT_TRUE(has(refusal("end", 8), "`end`"));
  EXPECT_TRUE(has(refusal("begin", -1), "`begin`"));
  EXPECT_TRUE(has(refusal("turns", 3), "`turn`"));
  EXPECT_TRUE(has(refusal("ended", 3), "`ended`"));
  const auto range = [](std::int64_t begin, std::int64_t end) {
    return State(State::List{State().set("begin", begin).set("end", end)});
  };
  EXPECT_TRUE(has(refusal("ended", range(0, 1)), "streams [0, 1) have ended, but it is of those from 2 on"));
  EXPECT_TRUE(has(refusal("ended", range(4, 4)), "damaged"));
  EXPECT_TRUE(has(refusal("ended", range(3, 7)), "cannot have begun"));
  State::List twice = good.at("begun").as_list();
  twice.push_back(twice.front());
  EXPECT_TRUE(has(refusal("begun", twice), "cannot have begun"));
}

TEST(StreamsNode, DamagedCountsOfAMixtureAreRefused) {
  StreamStates good = after(streams(2, 7, 7), 75);
  good.sampled = {3, 4};
  good.begun.begin()->second.sampled = {1, 0};
  const State saved = good.write();
  EXPECT_EQ(read_streams(saved, "test").write(), saved);
  EXPECT_EQ(read_streams(saved, "test").all_sampled(), (Values{4, 4}));
  const auto refusal = [&](const State& counts) {
    return message_of<c10::ValueError>([&] { read_streams(State(saved).set("sampled", counts), "test"); });
  };
  EXPECT_TRUE(has(refusal(3), "`sampled` must be a list"));
  EXPECT_TRUE(has(refusal(State::List{State("3")}), "`sampled` must have integers in [0, "));
  EXPECT_TRUE(has(refusal(State::List{State(-1)}), "`sampled` must have integers in [0, "));
  EXPECT_TRUE(has(refusal(State::List{State(std::int64_t{1} << 48)}), "have drawn 281474976710657 elements"));
}

TEST(StreamsNode, LeavesNothingToDevices) {
  const Dataset images = Dataset::from_tensor_slices(Element(at::zeros({64, 2, 2, 3}, at::kByte)))
                             .filter([](const Element&) { return true; })
                             .batch(2)
                             .normalize_images({0, 0, 0}, {1, 1, 1})
                             .prefetch(1);
  ASSERT_NE(images.node()->last_normalization(), nullptr);
  const auto cut = std::get<StreamCutPtr>(cut_streams(images.batch(2).node()));
  EXPECT_EQ(streams_node(cut, streams(0, 2, 2))->last_normalization(), nullptr);
}

}  // namespace
}  // namespace torch_distinput
