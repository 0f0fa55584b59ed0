// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/crc32c.h"

#include <array>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#elif defined(__aarch64__)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace torch_distinput {
namespace {

constexpr std::uint32_t kPolynomial = 0x82f63b78U;  // the Castagnoli polynomial 0x1edc6f41, bits reversed
constexpr std::size_t kSlices = 8;

using Table = std::array<std::uint32_t, 256>;

/// The tables of "slicing by 8": table k holds the contribution of a byte that is followed by k more bytes.
constexpr std::array<Table, kSlices> make_slices() {
  std::array<Table, kSlices> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kPolynomial : 0);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < kSlices; ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      tables[k][byte] = (tables[k - 1][byte] >> 8) ^ tables[0][tables[k - 1][byte] & 0xff];
    }
  }
  return tables;
}
constexpr auto kTables = make_slices();

std::uint64_t load64(const char* data) noexcept {
  std::uint64_t value;
  std::memcpy(&value, data, sizeof(value));
  return value;
}

#if defined(__x86_64__) || defined(__aarch64__)
#define TDI_CRC_INSTRUCTION 1

#if defined(__x86_64__)
#define TDI_CRC_TARGET __attribute__((target("sse4.2")))
TDI_CRC_TARGET inline std::uint64_t step64(std::uint64_t crc, std::uint64_t value) noexcept {
  return _mm_crc32_u64(crc, value);
}
TDI_CRC_TARGET inline std::uint32_t step8(std::uint32_t crc, char value) noexcept {
  return _mm_crc32_u8(crc, static_cast<unsigned char>(value));
}
bool has_instruction() noexcept { return __builtin_cpu_supports("sse4.2") != 0; }
#else
#define TDI_CRC_TARGET __attribute__((target("+crc")))
TDI_CRC_TARGET inline std::uint64_t step64(std::uint64_t crc, std::uint64_t value) noexcept {
  return __crc32cd(static_cast<std::uint32_t>(crc), value);
}
TDI_CRC_TARGET inline std::uint32_t step8(std::uint32_t crc, char value) noexcept {
  return __crc32cb(crc, static_cast<unsigned char>(value));
}
bool has_instruction() noexcept { return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0; }
#endif

/// Appends `Bytes` zero bytes to data whose CRC register is given. That is a linear map of the register, so
/// one table for each of its 4 bytes is enough.
template <std::size_t Bytes>
struct ZeroAppender {
  std::array<Table, 4> tables{};

  constexpr ZeroAppender() {
    std::array<std::uint32_t, 32> columns{};  // the image of each bit of the register
    for (std::size_t bit = 0; bit < 32; ++bit) {
      std::uint32_t crc = std::uint32_t{1} << bit;
      for (std::size_t i = 0; i < Bytes; ++i) crc = (crc >> 8) ^ kTables[0][crc & 0xff];
      columns[bit] = crc;
    }
    for (std::size_t part = 0; part < 4; ++part) {
      for (std::size_t byte = 0; byte < 256; ++byte) {
        for (std::size_t bit = 0; bit < 8; ++bit) {
          if ((byte >> bit & 1) != 0) tables[part][byte] ^= columns[8 * part + bit];
        }
      }
    }
  }

  std::uint32_t operator()(std::uint32_t crc) const noexcept {
    return tables[0][crc & 0xff] ^ tables[1][crc >> 8 & 0xff] ^ tables[2][crc >> 16 & 0xff] ^
           tables[3][crc >> 24];
  }
};

/// Checksums as many groups of 3 * `Bytes` bytes as there are, and advances `data` and `size` past them. The
/// instruction has a latency of three cycles and a throughput of one a cycle, so three streams of `Bytes`
/// bytes run interleaved.
template <std::size_t Bytes>
TDI_CRC_TARGET void checksum_groups(const char*& data, std::size_t& size, std::uint64_t& crc) noexcept {
  static const ZeroAppender<Bytes> append_zeros;
  for (; size >= 3 * Bytes; size -= 3 * Bytes, data += 3 * Bytes) {
    std::uint64_t second = 0;
    std::uint64_t third = 0;
    for (const char* at = data; at < data + Bytes; at += 8) {
      crc = step64(crc, load64(at));
      second = step64(second, load64(at + Bytes));
      third = step64(third, load64(at + 2 * Bytes));
    }
    crc = append_zeros(static_cast<std::uint32_t>(crc)) ^ second;
    crc = append_zeros(static_cast<std::uint32_t>(crc)) ^ third;
  }
}

TDI_CRC_TARGET std::uint32_t crc32c_instruction(std::span<const char> bytes, std::uint32_t seed) noexcept {
  const char* data = bytes.data();
  std::size_t size = bytes.size();
  std::uint64_t crc = ~seed;
  checksum_groups<2048>(data, size, crc);
  checksum_groups<128>(data, size, crc);
  for (; size >= 8; size -= 8, data += 8) crc = step64(crc, load64(data));
  auto tail = static_cast<std::uint32_t>(crc);
  for (; size > 0; --size) tail = step8(tail, *data++);
  return ~tail;
}
#endif

}  // namespace

std::uint32_t crc32c_portable(std::span<const char> bytes, std::uint32_t seed) noexcept {
  const char* data = bytes.data();
  std::size_t size = bytes.size();
  std::uint32_t crc = ~seed;
  for (; size >= kSlices; size -= kSlices, data += kSlices) {
    const std::uint64_t value = load64(data) ^ crc;
    crc = 0;
    for (std::size_t i = 0; i < kSlices; ++i) crc ^= kTables[kSlices - 1 - i][value >> (8 * i) & 0xff];
  }
  for (; size > 0; --size) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(*data++)) & 0xff];
  }
  return ~crc;
}

std::uint32_t crc32c(std::span<const char> data, std::uint32_t crc) noexcept {
#ifdef TDI_CRC_INSTRUCTION
  static const bool fast = has_instruction();
  if (fast) return crc32c_instruction(data, crc);
#endif
  return crc32c_portable(data, crc);
}

}  // namespace torch_distinput
