// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/mix_keys.h"
#include "torch_distinput/node.h"

namespace torch_distinput {
namespace {

// They make the keys of ops with and without a seed of their own differ.
constexpr std::uint64_t kOwnSeed = 1;
constexpr std::uint64_t kBaseSeed = 2;

}  // namespace

IterContext IterContext::input(std::size_t index) const {
  IterContext context = *this;
  context.path = mix_keys(path, index);
  return context;
}

IterContext IterContext::round(std::int64_t round) const {
  IterContext context = *this;
  context.epoch_key = mix_keys(epoch_key, static_cast<std::uint64_t>(round));
  return context;
}

std::uint64_t IterContext::key(std::optional<std::int64_t> own_seed, bool every_epoch) const {
  const std::uint64_t base = own_seed ? mix_keys(kOwnSeed, static_cast<std::uint64_t>(*own_seed))
                                      : mix_keys(mix_keys(kBaseSeed, seed), path);
  return every_epoch ? mix_keys(base, epoch_key) : base;
}

std::uint64_t IterContext::rows_key() const { return mix_keys(key({}, /*every_epoch=*/true), stream); }

}  // namespace torch_distinput
