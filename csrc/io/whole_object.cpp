// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/whole_object.h"

#include "io/file.h"
#include "io/file_error.h"

namespace torch_distinput {

std::optional<std::vector<char>> read_whole_object(const std::string& url, std::uint64_t most) {
  try {
    stamp_of(url);  // it may have been replaced since it was seen
    const File file(url);
    const std::uint64_t size = file.stamp().size;
    if (size > most) return std::nullopt;
    std::vector<char> bytes(static_cast<std::size_t>(size));
    file.will_read(0, size);
    if (file.read(bytes, 0) != bytes.size()) return std::nullopt;
    return bytes;
  } catch (const FileError&) {
    return std::nullopt;
  }
}

}  // namespace torch_distinput
