// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/value_rounds.h"

#include <ATen/core/ivalue.h>
#include <torch/csrc/jit/serialization/pickle.h>

#include <chrono>
#include <string>
#include <utility>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr const char* kValuesKey = "values";
constexpr std::chrono::seconds kValuesTimeout{300};

/// A tensor's own elements on the CPU: pickling a view would send all of the memory below it.
std::string pickled(const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> own;
  for (const at::Tensor& value : values) own.push_back(value.detach().cpu().clone());
  const std::vector<char> bytes = torch::jit::pickle_save(c10::IValue(std::move(own)));
  return {bytes.begin(), bytes.end()};
}

std::vector<at::Tensor> unpickled(const std::string& text) {
  return torch::jit::pickle_load({text.begin(), text.end()}).toTensorVector();
}

}  // namespace

ValueRounds::~ValueRounds() {
  if (!watched_) return;
  watched_->leave(done_);
  watched_->end();
}

void ValueRounds::open() {
  if (rounds_) return;
  peers_->expect_answers_within(kValuesTimeout);
  peers_->meet({"Strategy", kValuesTimeout});
  watched_ = peers_->watch().watch(kValuesKey, kValuesTimeout);
  rounds_ = all_gather_over_store(peers_->shared_store(), kValuesKey);
}

void ValueRounds::check() const {
  const PeerNews news = watched_->news();
  if (!news.failure.empty()) throw DistributedDatasetError(news.failure);
  if (news.left && news.left->step <= done_) {
    throw DistributedDatasetError("Strategy: rank " + std::to_string(news.left->rank) + " left after " +
                                  std::to_string(news.left->step) + " exchanges of values, but rank " +
                                  std::to_string(peers_->rank()) + " makes another one.");
  }
}

std::vector<at::Tensor> ValueRounds::of_all(const std::vector<at::Tensor>& mine) {
  const std::lock_guard lock(mutex_);
  open();
  WaitOptions wait_options{"Strategy: an exchange of values", kValuesTimeout};
  wait_options.check = [this] { check(); };
  const std::vector<std::string> texts = rounds_->run(pickled(mine), wait_options);
  watched_->took(done_++);
  std::vector<at::Tensor> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const bool own = static_cast<int>(rank) == peers_->rank();
    for (const at::Tensor& value : own ? mine : unpickled(texts[rank])) all.push_back(value);
  }
  return all;
}

}  // namespace torch_distinput
