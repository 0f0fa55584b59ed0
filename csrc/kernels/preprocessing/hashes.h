// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

/// \file
/// The hash functions of TensorFlow's string ops, so that bins agree with those of Keras' layers. The same
/// value for the same bytes on every little-endian machine. Not cryptographic. Safe from any thread.

namespace torch_distinput::preprocessing {

/// FarmHash's Fingerprint64 (github.com/google/farmhash), as `tf.strings.to_hash_bucket_fast`.
std::uint64_t fingerprint64(std::string_view bytes) noexcept;

/// TensorFlow's FingerprintCat64: the fingerprint of two values in order.
std::uint64_t fingerprint_cat64(std::uint64_t first, std::uint64_t second) noexcept;

/// The two halves of a key.
using SipKey = std::array<std::uint64_t, 2>;

/// SipHash-2-4 (Aumasson and Bernstein), as `tf.strings.to_hash_bucket_strong`.
std::uint64_t sip_hash(std::string_view bytes, const SipKey& key) noexcept;

}  // namespace torch_distinput::preprocessing
