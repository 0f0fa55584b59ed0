// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/aws_profile.h"

#include <fstream>

#include "remote/credentials.h"
#include "remote/text.h"

namespace torch_distinput {
namespace {

std::string file_of(const char* variable, const char* name) {
  const std::string given = environment(variable);
  return given.empty() ? environment("HOME") + "/.aws/" + name : given;
}

}  // namespace

std::map<std::string, std::string> ini_section(const std::string& file, std::string_view section) {
  std::map<std::string, std::string> values;
  std::ifstream lines(file);
  bool inside = false;
  for (std::string raw; std::getline(lines, raw);) {
    const std::string_view line = trimmed(raw);
    if (line.empty() || line.front() == '#' || line.front() == ';') continue;
    if (line.front() == '[') {
      inside = line.back() == ']' && trimmed(line.substr(1, line.size() - 2)) == section;
      continue;
    }
    const std::size_t equals = line.find('=');
    // An indented line belongs to the value before it.
    if (!inside || equals == std::string_view::npos || raw.front() == ' ' || raw.front() == '\t') continue;
    values[std::string(trimmed(line.substr(0, equals)))] = trimmed(line.substr(equals + 1));
  }
  return values;
}

std::map<std::string, std::string> aws_profile() {
  std::string profile = environment("AWS_PROFILE");
  if (profile.empty()) profile = "default";
  auto values = ini_section(file_of("AWS_SHARED_CREDENTIALS_FILE", "credentials"), profile);
  const std::string section = profile == "default" ? profile : "profile " + profile;
  values.merge(ini_section(file_of("AWS_CONFIG_FILE", "config"), section));
  return values;
}

}  // namespace torch_distinput
