// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "remote/curl_abi.h"
#include "torch_distinput/api.h"

namespace torch_distinput {

/// libcurl, loaded by the first call: the library that `TDI_LIBCURL` names, else the one in pycurl's wheel
/// beside torch's package, else the system's `libcurl.so.4`. Safe from any thread. Throws
/// std::runtime_error that says what to install where there is none, or where it is too old.
const curl::Functions& curl_library();

/// The library and its TLS as it describes itself, for people; throws as `curl_library`.
TDI_API std::string curl_version();

/// Tells the library where the packages of this Python lie (`site-packages`), so that pycurl's is found.
TDI_API void look_for_curl_in(const std::string& folder);

}  // namespace torch_distinput
