// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/cache_trust.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "io/own_file.h"

namespace torch_distinput {
namespace {

bool is_ours_or_roots(::uid_t user) noexcept { return user == 0 || user == ::geteuid(); }

/// Whether a stranger may have put the folder `child`, which lies in the open folder `parent`, or one above,
/// where it is: in /tmp, anyone can make a folder of a name that others will look for.
bool is_strangers(const struct ::stat& child, int parent) noexcept {
  constexpr int kMostFolders = 256;
  struct ::stat below = child;
  Descriptor here(::openat(parent, ".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (int folders = 0; folders < kMostFolders; ++folders) {
    struct ::stat status;
    if (!here.open() || ::fstat(here.number(), &status) != 0) return true;
    if (status.st_ino == below.st_ino && status.st_dev == below.st_dev) return false;  // "/"
    if ((status.st_mode & S_IWOTH) != 0 && !is_ours_or_roots(below.st_uid)) return true;
    below = status;
    here = Descriptor(::openat(here.number(), "..", O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  return true;
}

}  // namespace

CacheTrust trust_in(int named, int cache) noexcept {
  struct ::stat above;
  struct ::stat status;
  if (::fstat(named, &above) != 0 || ::fstat(cache, &status) != 0) return CacheTrust::kStrangers;
  if (is_own(status)) return CacheTrust::kUser;
  if ((status.st_mode & S_IWOTH) != 0 || is_strangers(status, named)) return CacheTrust::kStrangers;
  if ((status.st_mode & S_IWGRP) == 0) return CacheTrust::kOwner;
  return is_for_group(above) && above.st_gid == status.st_gid ? CacheTrust::kGroup : CacheTrust::kStrangers;
}

bool is_trusted_file(CacheTrust trust, ::uid_t owner, const struct ::stat& file) noexcept {
  if (!S_ISREG(file.st_mode)) return false;
  switch (trust) {
    case CacheTrust::kUser:
      return is_own(file);
    case CacheTrust::kGroup:
      return (file.st_mode & S_IWOTH) == 0;
    case CacheTrust::kOwner:
      return (file.st_mode & (S_IWGRP | S_IWOTH)) == 0 &&
             (file.st_uid == owner || is_ours_or_roots(file.st_uid));
    case CacheTrust::kStrangers:
      break;
  }
  return false;
}

}  // namespace torch_distinput
