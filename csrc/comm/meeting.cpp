// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/meeting.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

#include "comm/wait_for_all.h"

namespace torch_distinput {
namespace {

std::uint64_t draw() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::string name_of(const std::vector<std::string>& numbers) {
  std::uint64_t all = 0;
  for (const auto& number : numbers) all ^= std::stoull(number);
  std::ostringstream text;
  text << std::hex << all;
  return text.str();
}

}  // namespace

Meeting::Meeting(CommunicatorPtr communicator)
    : communicator_(std::move(communicator)),
      number_(std::to_string(draw())),
      numbers_(keys_of_all("meeting/number", communicator_->size())),
      names_(keys_of_all("meeting/name", communicator_->size())) {}

std::optional<std::string> Meeting::step() {
  const auto rank = static_cast<std::size_t>(communicator_->rank());
  if (!std::exchange(posted_, true)) communicator_->post(numbers_[rank], number_);
  const auto numbers = communicator_->look(numbers_);
  if (!numbers) return std::nullopt;
  const std::string name = name_of(*numbers);
  if (std::exchange(name_, name) != name) communicator_->post(names_[rank], name);
  const auto names = communicator_->look(names_);
  if (!names || std::any_of(names->begin(), names->end(), [&](const auto& one) { return one != name; }))
    return std::nullopt;
  auto keys = numbers_;
  keys.insert(keys.end(), names_.begin(), names_.end());
  leave_texts(*communicator_, "meeting/" + name, keys);
  return name;
}

std::vector<int> Meeting::missing() {
  auto ranks = ranks_without(*communicator_, numbers_);
  for (int rank = 0; rank < communicator_->size() && ranks.empty(); ++rank) {
    // The number may be of an earlier life: only who agrees on the name has come.
    const auto name = communicator_->look({names_[static_cast<std::size_t>(rank)]});
    if (!name || name->front() != name_) ranks.push_back(rank);
  }
  return ranks;
}

namespace {

class Prefixed final : public Communicator {
 public:
  Prefixed(CommunicatorPtr inner, std::string prefix)
      : inner_(std::move(inner)), prefix_(std::move(prefix)) {}

  int rank() const noexcept override { return inner_->rank(); }
  int size() const noexcept override { return inner_->size(); }
  void expect_within(std::chrono::duration<double> limit) override { inner_->expect_within(limit); }
  void post(const std::string& key, const std::string& text) override { inner_->post(prefix_ + key, text); }
  std::string post_first(const std::string& key, const std::string& text) override {
    return inner_->post_first(prefix_ + key, text);
  }
  void append(const std::string& key, const std::string& text) override {
    inner_->append(prefix_ + key, text);
  }
  std::optional<std::vector<std::string>> look(const std::vector<std::string>& keys) override {
    std::vector<std::string> full;
    for (const auto& key : keys) full.push_back(prefix_ + key);
    return inner_->look(full);
  }
  std::int64_t add(const std::string& key, std::int64_t value) override {
    return inner_->add(prefix_ + key, value);
  }
  void remove(const std::string& key) override { inner_->remove(prefix_ + key); }

 private:
  CommunicatorPtr inner_;
  std::string prefix_;
};

}  // namespace

CommunicatorPtr with_prefix(CommunicatorPtr inner, std::string prefix) {
  return std::make_shared<Prefixed>(std::move(inner), std::move(prefix));
}

}  // namespace torch_distinput
