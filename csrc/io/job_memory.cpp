// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/job_memory.h"

#include <cerrno>
#include <cstring>
#include <span>
#include <system_error>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/job_share.h"

namespace torch_distinput {
namespace {

/// Where a process has memory open, and what tells it from other files that had this descriptor.
struct OpenPlace {
  std::int64_t process;
  std::int64_t descriptor;
  std::uint64_t device;
  std::uint64_t inode;
};

std::vector<char> place_of(const SharedSegment& memory) {
  struct stat status{};
  if (::fstat(memory.fd(), &status) != 0) throw std::system_error(errno, std::generic_category(), "fstat");
  const OpenPlace place{::getpid(), memory.fd(), status.st_dev, status.st_ino};
  std::vector<char> bytes(sizeof(place));
  std::memcpy(bytes.data(), &place, sizeof(place));
  return bytes;
}

/// The memory at the place that `bytes` name, if it is there and has `size` bytes; else null.
std::unique_ptr<SharedSegment> map_place(std::span<const char> bytes, std::uint64_t size) {
  OpenPlace place{};
  if (bytes.size() != sizeof(place)) return nullptr;
  std::memcpy(&place, bytes.data(), sizeof(place));
  const std::string path =
      "/proc/" + std::to_string(place.process) + "/fd/" + std::to_string(place.descriptor);
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return nullptr;
  struct stat status{};
  constexpr int kFixedSize = F_SEAL_SHRINK | F_SEAL_GROW;
  const bool same = ::fstat(fd, &status) == 0 && status.st_dev == place.device &&
                    status.st_ino == place.inode && static_cast<std::uint64_t>(status.st_size) == size &&
                    (::fcntl(fd, F_GET_SEALS) & kFixedSize) == kFixedSize;
  if (!same) {
    ::close(fd);
    return nullptr;
  }
  return std::unique_ptr<SharedSegment>(new SharedSegment(SharedSegment::attach(fd)));
}

}  // namespace

std::unique_ptr<SharedSegment> job_memory(const std::string& what, std::uint64_t bytes, const Poll& poll) {
  const auto job = job_on_host();
  if (!job) return std::make_unique<SharedSegment>(bytes);
  std::unique_ptr<SharedSegment> memory;
  share_on_host(
      what + " in memory of " + *job, sizeof(OpenPlace),
      [&](std::span<const char> place) { return (memory = map_place(place, bytes)) != nullptr; },
      [&](const std::function<void(std::uint64_t)>&) {
        memory = std::make_unique<SharedSegment>(bytes);
        return place_of(*memory);
      },
      poll);
  return memory;
}

}  // namespace torch_distinput
