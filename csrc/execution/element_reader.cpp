// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "execution/element_reader.h"

#include <utility>

#include "execution/read_ahead.h"

namespace torch_distinput {

ElementReader::ElementReader(PlanPtr plan, const Options& options)
    : plan_(std::move(plan)),
      is_remote_(plan_->traits().remote),
      horizon_(announced_bytes(plan_->traits(), options)) {}

Element ElementReader::fetch(std::int64_t position) {
  if (is_remote_) announce(position);
  std::int64_t scratch = position;
  Element element = std::move(plan_->fetch({&scratch, 1}).front());
  if (is_remote_) announcer_->measure(1, element.bytes());
  return element;
}

void ElementReader::announce(std::int64_t position) {
  if (!announcer_ || position != next_) {
    announcer_ = std::make_unique<ReadAnnouncer>(announce_elements(plan_), position, plan_->size(), horizon_,
                                                 plan_->least_bytes());
  }
  next_ = position + 1;
  announcer_->begin(position, 1);
}

}  // namespace torch_distinput
