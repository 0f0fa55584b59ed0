// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "base/shared_segment.h"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

namespace torch_distinput {
namespace {

[[noreturn]] void fail(int fd, int error, const char* what) {
  if (fd >= 0) ::close(fd);
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

SharedSegment::SharedSegment(std::uint64_t bytes) : size_(bytes) {
  // Beyond this limit `ftruncate` would not only fail but send SIGXFSZ.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur) fail(-1, EFBIG, "memfd");
  fd_ = ::memfd_create("torch_distinput", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd_ < 0) fail(-1, errno, "memfd_create");
  if (::ftruncate(fd_, static_cast<off_t>(bytes)) != 0) fail(fd_, errno, "ftruncate");
  if (::fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail(fd_, errno, "F_ADD_SEALS");
  }
  map();
}

SharedSegment::SharedSegment(Descriptor descriptor) : fd_(descriptor.fd) {
  struct stat status{};
  if (::fstat(fd_, &status) != 0) fail(fd_, errno, "fstat");
  size_ = static_cast<std::uint64_t>(status.st_size);
  map();
}

void SharedSegment::map() {
  void* const mapped = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd_, 0);
  if (mapped == MAP_FAILED) fail(fd_, errno, "mmap");
  ::madvise(mapped, size_, MADV_DONTDUMP);
  data_ = static_cast<char*>(mapped);
}

SharedSegment::~SharedSegment() {
  ::munmap(data_, size_);
  close_fd();
}

void SharedSegment::close_fd() noexcept {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void SharedSegment::discard(std::uint64_t begin, std::uint64_t end) const noexcept {
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  begin = (begin + page - 1) / page * page;
  end = end / page * page;
  if (begin < end) ::madvise(data_ + begin, end - begin, MADV_REMOVE);
}

}  // namespace torch_distinput
