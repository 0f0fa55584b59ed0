// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/images/find_pictures.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/interrupt_poll.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

/// Those of torchvision, so that rows have the same numbers.
constexpr std::array<std::string_view, 9> kSuffixes{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                    ".pgm", ".tif",  ".tiff", ".webp"};

bool names_picture(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// The folder `folder` and those in it, at any depth, each with the names of its pictures. As Python's
/// `os.walk`, it follows links.
void walk(const fs::path& folder, std::vector<std::pair<std::string, std::vector<std::string>>>& found,
          InterruptPoll& poll) {
  std::vector<std::string> names;
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    poll();
    if (entry.is_directory())
      folders.push_back(entry.path());
    else if (names_picture(entry.path().filename().string()))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  found.emplace_back(folder.string(), std::move(names));
  for (const fs::path& inner : folders) walk(inner, found, poll);
}

FoundPictures find_in(const std::string& root) {
  FoundPictures found;
  InterruptPoll poll;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) found.classes.push_back(entry.path().filename().string());
  }
  std::sort(found.classes.begin(), found.classes.end());
  if (found.classes.empty()) throw NotFoundError("ImageFolder: `" + root + "` holds no folders of classes.");
  for (std::size_t number = 0; number < found.classes.size(); ++number) {
    std::vector<std::pair<std::string, std::vector<std::string>>> folders;
    walk(fs::path(root) / found.classes[number], folders, poll);
    std::sort(folders.begin(), folders.end());
    const std::size_t before = found.paths.size();
    for (const auto& [folder, names] : folders) {
      for (const std::string& name : names) found.paths.push_back((fs::path(folder) / name).string());
    }
    if (found.paths.size() == before)
      throw NotFoundError("ImageFolder: class `" + found.classes[number] + "` in `" + root +
                          "` holds no pictures.");
    found.numbers.resize(found.paths.size(), static_cast<std::int64_t>(number));
  }
  return found;
}

}  // namespace

FoundPictures find_pictures(const std::string& root) {
  try {
    return find_in(root);
  } catch (const fs::filesystem_error& error) {
    const std::string message = std::string("ImageFolder: ") + error.what() + ".";
    if (error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::not_a_directory)
      throw NotFoundError(message);
    throw SystemError(message, error.code().value());
  }
}

}  // namespace torch_distinput
