// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "sources/images/find_images.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <filesystem>
#include <iterator>
#include <map>
#include <string_view>
#include <system_error>
#include <utility>

#include <sys/stat.h>

#include "core/interrupt_poll.h"
#include "io/remote_files.h"
#include "remote/url.h"
#include "sources/records/file_errors.h"
#include "torch_distinput/error.h"

namespace torch_distinput {
namespace {

namespace fs = std::filesystem;

/// Those of torchvision, so that rows have the same numbers.
constexpr std::array<std::string_view, 9> kSuffixes{".jpg", ".jpeg", ".png",  ".ppm", ".bmp",
                                                    ".pgm", ".tif",  ".tiff", ".webp"};

bool names_image(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::tolower(letter)); });
  return std::any_of(kSuffixes.begin(), kSuffixes.end(),
                     [&](std::string_view suffix) { return name.ends_with(suffix); });
}

/// What tells a folder from all others of the machine.
using FolderId = std::pair<dev_t, ino_t>;

FolderId id_of(const fs::path& folder) {
  struct stat status{};
  if (::stat(folder.c_str(), &status) != 0)
    throw fs::filesystem_error("cannot look at a folder", folder,
                               std::error_code(errno, std::generic_category()));
  return {status.st_dev, status.st_ino};
}

/// The folder `folder` and those in it, at any depth, each with the names of its images. It follows links,
/// also out of the root, as torchvision does: folders of links are how subsets and mounts are made. `above`:
/// the folders that hold this one. Throws InvalidArgumentError for a link to one of them, which would be
/// followed without end.
void walk(const fs::path& folder, std::vector<std::pair<std::string, std::vector<std::string>>>& found,
          std::vector<FolderId>& above, InterruptPoll& poll) {
  const FolderId here = id_of(folder);
  if (std::find(above.begin(), above.end(), here) != above.end())
    throw InvalidArgumentError("ImageFolder: `" + folder.string() + "` is a link to a folder that holds it.");
  above.push_back(here);
  std::vector<std::string> names;
  std::vector<fs::path> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    poll();
    if (entry.is_directory())
      folders.push_back(entry.path());
    else if (names_image(entry.path().filename().string()))
      names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  found.emplace_back(folder.string(), std::move(names));
  for (const fs::path& inner : folders) walk(inner, found, above, poll);
  above.pop_back();
}

/// The paths of the images of each class.
using Classes = std::map<std::string, std::vector<std::string>>;

Classes find_in(const std::string& root) {
  Classes classes;
  InterruptPoll poll;
  for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
    if (entry.is_directory()) classes[entry.path().filename().string()];
  }
  for (auto& [name, paths] : classes) {
    std::vector<std::pair<std::string, std::vector<std::string>>> folders;
    std::vector<FolderId> above{id_of(root)};
    walk(fs::path(root) / name, folders, above, poll);
    std::sort(folders.begin(), folders.end());
    for (const auto& [folder, names] : folders) {
      for (const std::string& image : names) paths.push_back((fs::path(folder) / image).string());
    }
  }
  return classes;
}

/// The same of objects, whose names say which folders there are.
Classes find_below(const std::string& root) {
  const std::string prefix = root.substr(0, root.find_last_not_of('/') + 1) + "/";
  std::vector<std::pair<std::string, std::string>> images;  // the folder of each, and its URL
  Classes classes;
  for (const ListedObject& object : RemoteFiles::of_process().list(prefix)) {
    const std::size_t end = object.url.find('/', prefix.size());
    if (end == std::string::npos || end == prefix.size()) continue;
    classes[object.url.substr(prefix.size(), end - prefix.size())];
    if (names_image(object.url)) images.emplace_back(object.url.substr(0, object.url.rfind('/')), object.url);
  }
  std::sort(images.begin(), images.end());
  for (auto& [folder, url] : images) {
    const std::size_t end = std::min(folder.find('/', prefix.size()), folder.size());
    classes[folder.substr(prefix.size(), end - prefix.size())].push_back(std::move(url));
  }
  return classes;
}

FoundImages numbered(Classes classes, const std::string& root) {
  if (classes.empty()) throw NotFoundError("ImageFolder: `" + root + "` holds no folders of classes.");
  const auto empty =
      std::find_if(classes.begin(), classes.end(), [](const auto& one) { return one.second.empty(); });
  if (empty != classes.end())
    throw NotFoundError("ImageFolder: class `" + empty->first + "` in `" + root + "` holds no images.");
  FoundImages found;
  for (auto& [name, paths] : classes) {
    std::move(paths.begin(), paths.end(), std::back_inserter(found.paths));
    found.numbers.resize(found.paths.size(), static_cast<std::int64_t>(found.classes.size()));
    found.classes.push_back(name);
  }
  return found;
}

}  // namespace

FoundImages find_images(const std::string& root) {
  if (is_url(root))
    return numbered(with_file_errors("ImageFolder", [&] { return find_below(root); }), shown_url(root));
  try {
    return numbered(find_in(root), root);
  } catch (const fs::filesystem_error& error) {
    const std::string message = std::string("ImageFolder: ") + error.what() + ".";
    if (error.code() == std::errc::no_such_file_or_directory || error.code() == std::errc::not_a_directory)
      throw NotFoundError(message);
    throw SystemError(message, error.code().value());
  }
}

}  // namespace torch_distinput
