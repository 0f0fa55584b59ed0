// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "api/value_rounds.h"

#include <chrono>
#include <string>
#include <utility>

#include "comm/tensor_text.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr std::chrono::seconds kValuesTimeout{300};
constexpr std::chrono::seconds kHostTimeout{5};

}  // namespace

ValueRounds::~ValueRounds() {
  if (!watched_) return;
  watched_->leave(done_);
  watched_->end();
}

void ValueRounds::open() {
  if (watched_) return;
  GroupPeers& group = peers_->group();
  group.expect_answers_within(kValuesTimeout);
  group.link().meet({"Strategy", kValuesTimeout});
  scope_ = peers_->name() + "/values/0";
  watched_ = group.watch().watch(scope_, kValuesTimeout, kHostTimeout);
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
  GroupLink& link = peers_->group().link();
  const std::string joined =
      link.reduce(scope_ + "/" + std::to_string(done_), text_of_one(link.rank(), encode_tensors(mine)),
                  join_texts, wait_options);
  const auto texts = texts_of_all(joined, link.size(), "Strategy: the values of all ranks");
  watched_->took(done_++);
  std::vector<at::Tensor> all;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    const bool own = static_cast<int>(rank) == peers_->rank();
    const std::string whose = "Strategy: the values of rank " + std::to_string(rank);
    const std::vector<at::Tensor> values = own ? mine : decode_tensors(texts[rank], whose);
    if (values.size() != mine.size()) {
      PeerTextReader("", whose).fail("the number of values", std::to_string(mine.size()),
                                     std::to_string(values.size()));
    }
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace torch_distinput
