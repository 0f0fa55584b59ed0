// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "kernels/preprocessing/hashes.h"

#include <bit>
#include <cstddef>
#include <utility>

#include "kernels/preprocessing/load_word.h"

namespace torch_distinput::preprocessing {
namespace {

// The constants and steps are those of farmhashna::Hash64 and of the SipHash paper.
constexpr std::uint64_t kFarm0 = 0xc3a5c85c97cb3127U;
constexpr std::uint64_t kFarm1 = 0xb492b66fbe98f273U;
constexpr std::uint64_t kFarm2 = 0x9ae16a3b2f90404fU;
constexpr std::uint64_t kFarmSeed = 81;
constexpr std::size_t kFarmBlock = 64;

using Pair = std::pair<std::uint64_t, std::uint64_t>;

std::uint64_t load64(const char* from) noexcept { return load_word<std::uint64_t>(from); }
std::uint64_t load32(const char* from) noexcept { return load_word<std::uint32_t>(from); }

std::uint64_t shift_mix(std::uint64_t value) noexcept { return value ^ (value >> 47); }

std::uint64_t farm_mix(std::uint64_t u, std::uint64_t v, std::uint64_t factor) noexcept {
  const std::uint64_t a = shift_mix((u ^ v) * factor);
  return shift_mix((v ^ a) * factor) * factor;
}

std::uint64_t farm_to_16(const char* s, std::size_t size) noexcept {
  const std::uint64_t factor = kFarm2 + size * 2;
  if (size >= 8) {
    const std::uint64_t a = load64(s) + kFarm2;
    const std::uint64_t b = load64(s + size - 8);
    const std::uint64_t c = std::rotr(b, 37) * factor + a;
    const std::uint64_t d = (std::rotr(a, 25) + b) * factor;
    return farm_mix(c, d, factor);
  }
  if (size >= 4) return farm_mix(size + (load32(s) << 3), load32(s + size - 4), factor);
  if (size == 0) return kFarm2;
  const auto byte = [s](std::size_t at) { return std::uint32_t{static_cast<unsigned char>(s[at])}; };
  const std::uint32_t y = byte(0) + (byte(size >> 1) << 8);
  const std::uint32_t z = static_cast<std::uint32_t>(size) + (byte(size - 1) << 2);
  return shift_mix(y * kFarm2 ^ z * kFarm0) * kFarm2;
}

std::uint64_t farm_to_32(const char* s, std::size_t size) noexcept {
  const std::uint64_t factor = kFarm2 + size * 2;
  const std::uint64_t a = load64(s) * kFarm1;
  const std::uint64_t b = load64(s + 8);
  const std::uint64_t c = load64(s + size - 8) * factor;
  const std::uint64_t d = load64(s + size - 16) * kFarm2;
  return farm_mix(std::rotr(a + b, 43) + std::rotr(c, 30) + d, a + std::rotr(b + kFarm2, 18) + c, factor);
}

std::uint64_t farm_to_64(const char* s, std::size_t size) noexcept {
  const std::uint64_t factor = kFarm2 + size * 2;
  const std::uint64_t a = load64(s) * kFarm2;
  const std::uint64_t b = load64(s + 8);
  const std::uint64_t c = load64(s + size - 8) * factor;
  const std::uint64_t d = load64(s + size - 16) * kFarm2;
  const std::uint64_t y = std::rotr(a + b, 43) + std::rotr(c, 30) + d;
  const std::uint64_t z = farm_mix(y, a + std::rotr(b + kFarm2, 18) + c, factor);
  const std::uint64_t e = load64(s + 16) * factor;
  const std::uint64_t f = load64(s + 24);
  const std::uint64_t g = (y + load64(s + size - 32)) * factor;
  const std::uint64_t h = (z + load64(s + size - 24)) * factor;
  return farm_mix(std::rotr(e + f, 43) + std::rotr(g, 30) + h, e + std::rotr(f + a, 18) + g, factor);
}

Pair farm_weak(const char* s, std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t w = load64(s);
  const std::uint64_t z = load64(s + 24);
  a += w;
  b = std::rotr(b + a + z, 21);
  const std::uint64_t c = a;
  a += load64(s + 8) + load64(s + 16);
  b += std::rotr(a, 44);
  return {a + z, b + c};
}

std::uint64_t farm_long(const char* s, std::size_t size) noexcept {
  std::uint64_t x = kFarmSeed * kFarm2 + load64(s);
  std::uint64_t y = kFarmSeed * kFarm1 + 113;
  std::uint64_t z = shift_mix(y * kFarm2 + 113) * kFarm2;
  Pair v{0, 0};
  Pair w{0, 0};
  const auto step = [&](std::uint64_t factor, std::uint64_t weight) {
    x = std::rotr(x + y + v.first + load64(s + 8), 37) * factor;
    y = std::rotr(y + v.second + load64(s + 48), 42) * factor;
    x ^= w.second * weight;
    y += v.first * weight + load64(s + 40);
    z = std::rotr(z + w.first, 33) * factor;
    v = farm_weak(s, v.second * factor, x + w.first);
    w = farm_weak(s + 32, z + w.second, y + load64(s + 16));
    std::swap(z, x);
  };
  const char* const end = s + ((size - 1) / kFarmBlock) * kFarmBlock;
  const char* const last = s + size - kFarmBlock;
  for (; s != end; s += kFarmBlock) step(kFarm1, 1);
  const std::uint64_t factor = kFarm1 + ((z & 0xff) << 1);
  s = last;
  w.first += (size - 1) & (kFarmBlock - 1);
  v.first += w.first;
  w.first += v.first;
  step(factor, 9);
  return farm_mix(farm_mix(v.first, w.first, factor) + shift_mix(y) * kFarm0 + z,
                  farm_mix(v.second, w.second, factor) + x, factor);
}

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void round() noexcept {
    v0 += v1;
    v1 = std::rotl(v1, 13) ^ v0;
    v0 = std::rotl(v0, 32);
    v2 += v3;
    v3 = std::rotl(v3, 16) ^ v2;
    v0 += v3;
    v3 = std::rotl(v3, 21) ^ v0;
    v2 += v1;
    v1 = std::rotl(v1, 17) ^ v2;
    v2 = std::rotl(v2, 32);
  }
  void add(std::uint64_t word) noexcept {
    v3 ^= word;
    round();
    round();
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t fingerprint64(std::string_view bytes) noexcept {
  const char* const s = bytes.data();
  const std::size_t size = bytes.size();
  if (size <= 16) return farm_to_16(s, size);
  if (size <= 32) return farm_to_32(s, size);
  if (size <= kFarmBlock) return farm_to_64(s, size);
  return farm_long(s, size);
}

std::uint64_t fingerprint_cat64(std::uint64_t first, std::uint64_t second) noexcept {
  constexpr std::uint64_t kFactor = 0xc6a4a7935bd1e995U;
  std::uint64_t result = first ^ kFactor;
  result ^= shift_mix(second * kFactor) * kFactor;
  result *= kFactor;
  result = shift_mix(result) * kFactor;
  return shift_mix(result);
}

std::uint64_t sip_hash(std::string_view bytes, const SipKey& key) noexcept {
  SipState state{key[0] ^ 0x736f6d6570736575U, key[1] ^ 0x646f72616e646f6dU, key[0] ^ 0x6c7967656e657261U,
                 key[1] ^ 0x7465646279746573U};
  const std::size_t whole = bytes.size() / 8 * 8;
  for (std::size_t at = 0; at < whole; at += 8) state.add(load64(bytes.data() + at));
  std::uint64_t last = std::uint64_t{bytes.size()} << 56;
  for (std::size_t i = whole; i < bytes.size(); ++i)
    last |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * (i - whole));
  state.add(last);
  state.v2 ^= 0xff;
  for (int i = 0; i < 4; ++i) state.round();
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace torch_distinput::preprocessing
