// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/host_list.h"

#include <algorithm>

namespace torch_distinput {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::optional<std::string> first_host(std::string_view list) {
  std::string host;
  while (!list.empty() && list.front() != ',') {
    const std::size_t plain = std::min(list.find_first_of("[],"), list.size());
    host += list.substr(0, plain);
    list.remove_prefix(plain);
    if (list.empty() || list.front() == ',') break;
    const std::size_t close = list.find(']');
    if (list.front() != '[' || close == std::string_view::npos) return std::nullopt;
    const std::string_view numbers = list.substr(1, close - 1);
    const std::string_view first = numbers.substr(0, numbers.find_first_of("-,"));
    if (!is_number(first)) return std::nullopt;
    host += first;
    list.remove_prefix(close + 1);
  }
  if (host.empty()) return std::nullopt;
  return host;
}

}  // namespace torch_distinput
