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
  if (!is_remote_) return fetch_one(position);
  if (!remote_ || position != next_) begin_remote(position);
  next_ = position + 1;
  return remote_->run([&] {
    remote_->announcer.begin(position, 1);
    Element element = fetch_one(position);
    remote_->announcer.measure(1, element.bytes());
    return element;
  });
}

Element ElementReader::fetch_one(std::int64_t position) const {
  return std::move(plan_->fetch({&position, 1}).front());
}

void ElementReader::begin_remote(std::int64_t position) {
  remote_ = std::unique_ptr<RemoteRun>(
      new RemoteRun{{announce_elements(plan_), position, plan_->size(), horizon_, plan_->least_bytes()}});
}

}  // namespace torch_distinput
