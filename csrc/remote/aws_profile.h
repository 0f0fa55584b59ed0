// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace torch_distinput {

/// The keys and values of section `section` of an INI file; empty where there is no such file or section.
std::map<std::string, std::string> ini_section(const std::string& file, std::string_view section);

/// What `~/.aws/credentials` and `~/.aws/config` (or the files that AWS_SHARED_CREDENTIALS_FILE and
/// AWS_CONFIG_FILE name) say of the profile AWS_PROFILE, or "default". The first goes before the second.
std::map<std::string, std::string> aws_profile();

}  // namespace torch_distinput
