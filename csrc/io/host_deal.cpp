// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/host_deal.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <optional>
#include <random>
#include <string_view>

namespace torch_distinput {
namespace {

std::optional<std::size_t> number_in(const char* variable) noexcept {
  const char* const value = std::getenv(variable);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

std::optional<HostPlace> place_in(const char* number_name, const char* hosts_name) noexcept {
  const auto number = number_in(number_name);
  const auto hosts = number_in(hosts_name);
  if (!number || !hosts || *number >= *hosts) return std::nullopt;
  return HostPlace{*number, *hosts};
}

}  // namespace

HostPlace host_place() noexcept {
  if (const auto place = place_in("GROUP_RANK", "GROUP_WORLD_SIZE")) return *place;
  return place_in("SLURM_NODEID", "SLURM_NNODES").value_or(HostPlace{});
}

bool has_company() noexcept {
  if (const auto ranks = number_in("WORLD_SIZE")) return *ranks > 1;
  return number_in("SLURM_NTASKS").value_or(1) > 1;
}

HostDeal deal_files(std::size_t count, const HostPlace& place) {
  HostDeal deal{std::vector<std::size_t>(count)};
  std::iota(deal.order.begin(), deal.order.end(), std::size_t{0});
  std::shuffle(deal.order.begin(), deal.order.end(), std::minstd_rand(std::random_device()()));
  const auto others = std::stable_partition(deal.order.begin(), deal.order.end(), [&](std::size_t number) {
    return number % place.hosts == place.number;
  });
  deal.own = static_cast<std::size_t>(std::distance(deal.order.begin(), others));
  return deal;
}

}  // namespace torch_distinput
