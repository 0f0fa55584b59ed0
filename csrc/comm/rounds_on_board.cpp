// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "comm/rounds.h"

namespace torch_distinput {
namespace {

class RoundsOnBoard final : public Rounds {
 public:
  RoundsOnBoard(CommunicatorPtr communicator, std::string key)
      : communicator_(std::move(communicator)), key_(std::move(key)) {}

  std::vector<std::string> hold(const std::string& text, const Patience& patience) override {
    auto texts = wait_for_all(*communicator_, key_ + "/" + std::to_string(held_), text, patience);
    ++held_;
    return texts;
  }

 private:
  CommunicatorPtr communicator_;
  std::string key_;
  std::int64_t held_ = 0;
};

}  // namespace

std::unique_ptr<Rounds> rounds_on_board(CommunicatorPtr communicator, std::string key) {
  return std::make_unique<RoundsOnBoard>(std::move(communicator), std::move(key));
}

}  // namespace torch_distinput
