// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// Marks what the shared library exports; everything else is hidden.
#if defined(__GNUC__) || defined(__clang__)
#define TDI_API __attribute__((visibility("default")))
#else
#define TDI_API
#endif
