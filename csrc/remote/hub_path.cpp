// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/hub_path.h"

#include <algorithm>
#include <stdexcept>

#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr std::string_view kFront = "hf://";

/// The length of the first `parts` parts of a path, without the slash behind them.
std::size_t length_of(std::string_view path, int parts) {
  std::size_t end = path.find('/');
  for (int part = 1; part < parts && end != std::string_view::npos; ++part) end = path.find('/', end + 1);
  return std::min(end, path.size());
}

bool has_slashes(std::string_view revision) {
  return revision.starts_with("refs/convert/") || revision.starts_with("refs/pr/");
}

}  // namespace

HubPath parse_hub_path(std::string_view url) {
  const std::string_view text = url.substr(std::min(kFront.size(), url.size()));
  const bool has_kind = text.starts_with("datasets/") || text.starts_with("spaces/");
  const std::size_t names = length_of(text, has_kind ? 3 : 2);
  const std::size_t mark = text.substr(0, names).find('@');
  HubPath place;
  place.repository = text.substr(0, std::min(mark, names));
  place.revision = "main";
  std::size_t end = names;
  if (mark != std::string_view::npos) {
    const std::string_view behind = text.substr(mark + 1);
    const std::size_t size = length_of(behind, has_slashes(behind) ? 3 : 1);
    place.revision = percent_decode(behind.substr(0, size));
    end = mark + 1 + size;
  }
  const auto slashes = std::count(place.repository.begin(), place.repository.end(), '/');
  if (slashes != (has_kind ? 2 : 1) || place.repository.starts_with('/') || place.repository.ends_with('/') ||
      place.revision.empty() || place.repository.find("//") != std::string::npos) {
    throw std::invalid_argument("`" + std::string(url) +
                                "` must be hf://datasets/owner/name[@revision]/path, hf://spaces/... or "
                                "hf://owner/name/... of a model");
  }
  place.path = text.substr(std::min(end + 1, text.size()));
  place.front = std::string(kFront) + std::string(text.substr(0, end)) + "/";
  return place;
}

}  // namespace torch_distinput
