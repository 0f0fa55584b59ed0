// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

namespace torch_distinput {

/// Which code runs. kAny: the fastest that the processor supports; kPortable: that for every processor. Both
/// compute the same integers.
enum class Instructions { kAny, kPortable };

/// Whether code for AVX2 may and should run.
inline bool use_avx2([[maybe_unused]] Instructions instructions) {
#if defined(__x86_64__)
  static const bool has = __builtin_cpu_supports("avx2") != 0;
  return has && instructions == Instructions::kAny;
#else
  return false;
#endif
}

}  // namespace torch_distinput
