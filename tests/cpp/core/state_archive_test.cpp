// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <sstream>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/serialize/archive.h>

#include "support/errors.h"
#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

torch::serialize::InputArchive read_back(torch::serialize::OutputArchive& archive) {
  std::stringstream file;
  archive.save_to(file);
  torch::serialize::InputArchive in;
  in.load_from(file);
  return in;
}

State restored(torch::serialize::InputArchive& archive) {
  State state;
  archive >> state;
  return state;
}

State position(int step) { return State().set("step", step).set("name", "caf\u00e9"); }

TEST(StateArchive, GoesThroughAnArchiveOfTorch) {
  torch::serialize::OutputArchive out;
  out << position(3);
  torch::serialize::InputArchive in = read_back(out);
  EXPECT_EQ(restored(in), position(3));
}

TEST(StateArchive, StandsBesideAnOptimizerInEitherOrder) {
  at::Tensor weight = at::ones({2}).requires_grad_();
  torch::optim::Adam optimizer(std::vector<at::Tensor>{weight}, 0.1);
  (weight * weight).sum().backward();
  optimizer.step();
  for (const bool first : {true, false}) {
    torch::serialize::OutputArchive out;
    if (first) out << position(3);
    optimizer.save(out);
    if (!first) out << position(3);
    torch::serialize::InputArchive in = read_back(out);
    EXPECT_EQ(restored(in), position(3)) << first;
    torch::optim::Adam loaded(std::vector<at::Tensor>{at::ones({2}).requires_grad_()}, 0.1);
    loaded.load(in);
    EXPECT_EQ(loaded.state().size(), 1U) << first;
  }
}

TEST(StateArchive, PositionsHaveNames) {
  torch::serialize::OutputArchive out;
  position(1).save(out, "train");
  position(2).save(out, "val_2");
  out << position(3);
  torch::serialize::InputArchive in = read_back(out);
  EXPECT_EQ(State::load(in, "val_2"), position(2));
  EXPECT_EQ(State::load(in, "train"), position(1));
  EXPECT_EQ(restored(in), position(3));
}

TEST(StateArchive, ASecondPositionUnderAKeyIsRefusedAndTheFirstOneStays) {
  torch::serialize::OutputArchive out;
  out << position(1);
  position(2).save(out, "train");
  const std::string unnamed = message_of<c10::ValueError>([&] { out << position(3); });
  EXPECT_TRUE(has(unnamed, "must not have the key `tdi_state` yet"));
  EXPECT_TRUE(has(unnamed, "state.save(archive, \"train\")"));
  const std::string named = message_of<c10::ValueError>([&] { position(4).save(out, "train"); });
  EXPECT_TRUE(has(named, "the key `tdi_state_train` yet"));

  torch::serialize::InputArchive in = read_back(out);
  EXPECT_EQ(restored(in), position(1));
  EXPECT_EQ(State::load(in, "train"), position(2));
}

TEST(StateArchive, AnotherValueUnderTheKeyIsNotReplaced) {
  for (const c10::IValue& other : {c10::IValue("text"), c10::IValue(7), c10::IValue()}) {
    torch::serialize::OutputArchive out;
    out.write("tdi_state", other);
    EXPECT_THROW(out << position(1), c10::ValueError);
  }
  torch::serialize::OutputArchive out;
  out.write("tdi_state_train", at::ones({2}));
  EXPECT_THROW(position(1).save(out, "train"), c10::ValueError);
}

TEST(StateArchive, NestedArchivesHavePositionsOfTheirOwn) {
  torch::serialize::OutputArchive out;
  torch::serialize::OutputArchive nested(out.compilation_unit());
  out << position(1);
  nested << position(2);
  out.write("data", nested);
  torch::serialize::InputArchive in = read_back(out), inner;
  in.read("data", inner);
  EXPECT_EQ(State::load(in, ""), position(1));
  EXPECT_EQ(State::load(inner, ""), position(2));
}

TEST(StateArchive, ReadsTheKeyOfEarlierVersions) {
  torch::serialize::OutputArchive out;
  out.write("state", c10::IValue(position(5).str()));
  torch::serialize::InputArchive in = read_back(out);
  EXPECT_EQ(restored(in), position(5));
  EXPECT_THROW(static_cast<void>(State::load(in, "train")), c10::ValueError);
}

TEST(StateArchive, AMissingPositionIsAnErrorWithTheNamesThatAreThere) {
  torch::serialize::OutputArchive out;
  position(1).save(out, "train");
  position(2).save(out, "val");
  torch::serialize::OutputArchive nested(out.compilation_unit());
  nested.write("step", at::ones({1}));
  out.write("state", nested);  // as an optimizer does
  torch::serialize::InputArchive in = read_back(out);
  State kept = position(9);
  const std::string unnamed = message_of<c10::ValueError>([&] { in >> kept; });
  EXPECT_TRUE(has(unnamed, "under the key `tdi_state`, but has none there"));
  EXPECT_TRUE(has(unnamed, "'train', 'val'"));
  EXPECT_EQ(kept, position(9));
  const std::string test = message_of<c10::ValueError>([&] { static_cast<void>(State::load(in, "test")); });
  EXPECT_TRUE(has(test, "`tdi_state_test`"));

  torch::serialize::OutputArchive empty;
  empty.write("x", at::ones({1}));
  torch::serialize::InputArchive without = read_back(empty);
  EXPECT_TRUE(has(message_of<c10::ValueError>([&] { without >> kept; }), "that it has: none"));
}

TEST(StateArchive, ANameIsLettersDigitsAndUnderscores) {
  torch::serialize::OutputArchive out;
  const std::string message = message_of<c10::ValueError>([&] { position(1).save(out, "train set"); });
  EXPECT_TRUE(has(message, "`name`"));
  EXPECT_TRUE(has(message, "'train set'"));
  EXPECT_THROW(position(1).save(out, "a.b"), c10::ValueError);
}

}  // namespace
}  // namespace torch_distinput
