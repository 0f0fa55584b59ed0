// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "runtime/permutation.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

#include "runtime/mix_keys.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace torch_distinput {
namespace {

constexpr std::uint32_t kMultiplier1 = 0x7feb352d;
constexpr std::uint32_t kMultiplier2 = 0x846ca68b;
constexpr std::size_t kChunk = 256;

std::uint32_t round_function(std::uint32_t half, std::uint32_t key) noexcept {
  std::uint32_t x = (half ^ key) * kMultiplier1;
  x = (x ^ (x >> 15)) * kMultiplier2;
  return x ^ (x >> 16);
}

std::uint64_t encrypt(const FeistelNetwork& net, std::uint64_t x) noexcept {
  auto high = static_cast<std::uint32_t>(x >> net.low_bits);
  auto low = static_cast<std::uint32_t>(x) & net.low_mask;
  for (int r = 0; r < net.rounds; r += 2) {
    high ^= round_function(low, net.keys[r]) & net.high_mask;
    low ^= round_function(high, net.keys[r + 1]) & net.low_mask;
  }
  return std::uint64_t{high} << net.low_bits | low;
}

#if defined(__x86_64__)
#define TORCH_DISTINPUT_AVX2 __attribute__((target("avx2")))

TORCH_DISTINPUT_AVX2 inline __m256i round_function_avx2(__m256i half, std::uint32_t key) noexcept {
  const __m256i keyed = _mm256_xor_si256(half, _mm256_set1_epi32(static_cast<int>(key)));
  __m256i x = _mm256_mullo_epi32(keyed, _mm256_set1_epi32(static_cast<int>(kMultiplier1)));
  x = _mm256_xor_si256(x, _mm256_srli_epi32(x, 15));
  x = _mm256_mullo_epi32(x, _mm256_set1_epi32(static_cast<int>(kMultiplier2)));
  return _mm256_xor_si256(x, _mm256_srli_epi32(x, 16));
}

TORCH_DISTINPUT_AVX2 inline __m256i encrypt_avx2(const FeistelNetwork& net, __m256i x) noexcept {
  const __m256i high_mask = _mm256_set1_epi32(static_cast<int>(net.high_mask));
  const __m256i low_mask = _mm256_set1_epi32(static_cast<int>(net.low_mask));
  const __m128i low_bits = _mm_cvtsi32_si128(net.low_bits);
  __m256i high = _mm256_srl_epi32(x, low_bits);
  __m256i low = _mm256_and_si256(x, low_mask);
  for (int r = 0; r < net.rounds; r += 2) {
    high = _mm256_xor_si256(high, _mm256_and_si256(round_function_avx2(low, net.keys[r]), high_mask));
    low = _mm256_xor_si256(low, _mm256_and_si256(round_function_avx2(high, net.keys[r + 1]), low_mask));
  }
  return _mm256_or_si256(_mm256_sll_epi32(high, low_bits), low);
}

/// Encrypts as many leading numbers as it can, eight at a time, and returns how many.
TORCH_DISTINPUT_AVX2 std::size_t encrypt_batch_avx2(const FeistelNetwork& net,
                                                    std::span<std::int64_t> batch) noexcept {
  const __m256i zero = _mm256_setzero_si256();
  std::size_t done = 0;
  for (; done + 8 <= batch.size(); done += 8) {
    auto* const first = reinterpret_cast<__m256i*>(batch.data() + done);
    const __m256 a = _mm256_castsi256_ps(_mm256_loadu_si256(first));
    const __m256 b = _mm256_castsi256_ps(_mm256_loadu_si256(first + 1));
    // The vector holds a0 a1 b0 b1 | a2 a3 b2 b3, which the unpack instructions turn into a and b again.
    const __m256i x = encrypt_avx2(net, _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88)));
    _mm256_storeu_si256(first, _mm256_unpacklo_epi32(x, zero));
    _mm256_storeu_si256(first + 1, _mm256_unpackhi_epi32(x, zero));
  }
  return done;
}

/// Encrypts all but a last number or two, which take less time one by one, and returns how many.
TORCH_DISTINPUT_AVX2 std::size_t encrypt_all_avx2(const FeistelNetwork& net,
                                                  std::span<std::int64_t> batch) noexcept {
  constexpr std::size_t kFewest = 3;
  const std::size_t done = encrypt_batch_avx2(net, batch);
  const std::span<std::int64_t> rest = batch.subspan(done);
  if (rest.size() < kFewest) return done;
  std::array<std::int64_t, 8> padded{};
  std::copy(rest.begin(), rest.end(), padded.begin());
  encrypt_batch_avx2(net, padded);
  std::copy_n(padded.begin(), rest.size(), rest.begin());
  return batch.size();
}

#undef TORCH_DISTINPUT_AVX2
#endif

void encrypt_batch(const FeistelNetwork& net, std::span<std::int64_t> batch) noexcept {
  std::size_t done = 0;
#if defined(__x86_64__)
  constexpr std::uint64_t kMaxSize32 = std::uint64_t{1} << 32;
  if (__builtin_cpu_supports("avx2") && net.size <= kMaxSize32) done = encrypt_all_avx2(net, batch);
#endif
  for (std::int64_t& x : batch.subspan(done))
    x = static_cast<std::int64_t>(encrypt(net, static_cast<std::uint64_t>(x)));
}

/// Cycle walking for a whole batch: results outside [0, size) are collected and encrypted again.
void permute_batch(const FeistelNetwork& net, std::span<std::int64_t> batch) noexcept {
  std::array<std::uint32_t, kChunk> outside;
  std::array<std::int64_t, kChunk> walking;
  const auto size = static_cast<std::int64_t>(net.size);
  encrypt_batch(net, batch);
  std::size_t left = 0;
  for (std::size_t i = 0; i < batch.size(); ++i) {
    outside[left] = static_cast<std::uint32_t>(i);
    walking[left] = batch[i];
    left += batch[i] >= size;
  }
  while (left > 0) {
    encrypt_batch(net, std::span(walking).first(left));
    std::size_t still_left = 0;
    for (std::size_t i = 0; i < left; ++i) {
      const std::uint32_t place = outside[i];
      const std::int64_t x = walking[i];
      batch[place] = x;
      outside[still_left] = place;
      walking[still_left] = x;
      still_left += x >= size;
    }
    left = still_left;
  }
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t key) {
  constexpr std::int64_t kMax = std::int64_t{1} << 62;
  if (n < 0 || n > kMax) {
    throw std::invalid_argument("permutation: `n` must be within [0, 2^62], but is " + std::to_string(n) +
                                ".");
  }
  // Measured: eight rounds show no bias from 7 bits on; smaller domains need more.
  constexpr int kSmallBits = 7;
  constexpr int kRounds = 8;
  const int bits = n == 0 ? 0 : static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
  const int high_bits = bits - bits / 2;
  network_.size = static_cast<std::uint64_t>(n);
  network_.low_bits = bits / 2;
  network_.high_mask = (std::uint32_t{1} << high_bits) - 1;
  network_.low_mask = (std::uint32_t{1} << network_.low_bits) - 1;
  network_.rounds = bits < kSmallBits ? FeistelNetwork::kMaxRounds : kRounds;
  for (int r = 0; r < network_.rounds; r += 2) {
    const std::uint64_t pair = mix_keys(key, static_cast<std::uint64_t>(r));
    network_.keys[r] = static_cast<std::uint32_t>(pair >> 32);
    network_.keys[r + 1] = static_cast<std::uint32_t>(pair);
  }
}

std::int64_t Permutation::operator()(std::int64_t position) const noexcept {
  auto x = static_cast<std::uint64_t>(position);
  do {
    x = encrypt(network_, x);
  } while (x >= network_.size);
  return static_cast<std::int64_t>(x);
}

void Permutation::apply(std::span<std::int64_t> positions) const noexcept {
  while (!positions.empty()) {
    const auto chunk = positions.first(std::min(kChunk, positions.size()));
    permute_batch(network_, chunk);
    positions = positions.subspan(chunk.size());
  }
}

}  // namespace torch_distinput
