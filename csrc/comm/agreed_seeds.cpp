// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "comm/agreed_seeds.h"

#include <charconv>
#include <random>
#include <string>
#include <system_error>

#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

constexpr std::uint64_t kEnd = std::uint64_t{1} << 63;

std::uint64_t drawn() {
  std::random_device device;
  return ((std::uint64_t{device()} << 32) | device()) % kEnd;
}

}  // namespace

std::uint64_t AgreedSeeds::next() {
  const std::string key = "seeds/" + std::to_string(++taken_);
  const std::string text = store_->compare_set(key, std::to_string(drawn()));
  std::uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error != std::errc() || end != text.data() + text.size() || seed >= kEnd)
    throw DistributedDatasetError("MultiWorkerMirroredStrategy: the seed under `" + key +
                                  "` must be an integer in [0, 2**63), but is '" + text.substr(0, 40) + "'.");
  return seed;
}

}  // namespace torch_distinput
