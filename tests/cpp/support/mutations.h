// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>

/// Damaged inputs for parsers.
namespace torch_distinput::mutations_testing {

/// The number of damaged inputs that a mutation test tries: more in a build with the address sanitizer.
inline constexpr int kMutations =
#if defined(__SANITIZE_ADDRESS__)
    200'000;
#else
    5'000;
#endif

/// `bytes` after one to three random mutations: bytes overwritten, removed or repeated, or the end cut off.
inline std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto place = [&] { return bytes.empty() ? 0 : random() % bytes.size(); };
  for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
    switch (random() % 6) {
      case 0:
        bytes.resize(place());
        break;
      case 1:
        bytes.erase(place(), 1 + random() % 8);
        break;
      case 2:
        bytes.insert(place(), bytes.substr(place(), random() % 20));
        break;
      case 3:
        if (bytes.size() >= 8) {
          const std::uint64_t number = random() % 2 == 0 ? ~std::uint64_t{0} >> random() % 64 : random();
          std::memcpy(bytes.data() + random() % (bytes.size() - 7), &number, sizeof(number));
        }
        break;
      default:
        if (!bytes.empty()) bytes[place()] = static_cast<char>(random());
    }
  }
  return bytes;
}

}  // namespace torch_distinput::mutations_testing
