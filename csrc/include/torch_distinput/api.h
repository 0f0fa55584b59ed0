// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#if __cplusplus <= 201703L
#error "torch_distinput needs C++20: compile with -std=c++20, or set CMAKE_CXX_STANDARD to 20"
#endif

/// Marks what the shared library exports; everything else is hidden.
#if defined(__GNUC__) || defined(__clang__)
#define TDI_API __attribute__((visibility("default")))
#else
#define TDI_API
#endif
