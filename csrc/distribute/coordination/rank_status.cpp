// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "distribute/coordination/rank_status.h"

#include <sstream>

namespace torch_distinput {

std::string RankStatus::encode() const {
  std::ostringstream text;
  text << static_cast<int>(after) << ' ' << valid.size();
  for (const std::int64_t rows : valid) text << ' ' << rows;
  text << ' ' << places.size();
  for (const std::int64_t place : places) text << ' ' << place;
  text << ' ' << lacking.size();
  for (const bool lacks : lacking) text << ' ' << lacks;
  text << '\n' << failure;
  return text.str();
}

RankStatus RankStatus::decode(const std::string& text) {
  RankStatus round;
  const auto end = text.find('\n');
  std::istringstream numbers(text.substr(0, end));
  int after = 0;
  std::size_t count = 0;
  numbers >> after >> count;
  round.after = static_cast<After>(after);
  round.valid.resize(count);
  for (auto& rows : round.valid) numbers >> rows;
  numbers >> count;
  round.places.resize(count);
  for (auto& place : round.places) numbers >> place;
  numbers >> count;
  round.lacking.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    bool lacks = false;
    numbers >> lacks;
    round.lacking[i] = lacks;
  }
  round.failure = text.substr(end + 1);
  return round;
}

}  // namespace torch_distinput
