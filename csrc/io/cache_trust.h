// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

/// \file
/// Whose files a cache believes. Checksums tell what a disk has spoiled, but not who has written a block:
/// that follows from owners and modes of folders and files.

namespace torch_distinput {

/// Who may have written what lies in the folder of a cache.
enum class CacheTrust {
  kStrangers,  ///< nothing of it is believed
  kUser,       ///< this user alone
  kGroup,      ///< members of its group, which the mode of the folder that users name lets write
  kOwner,      ///< its owner alone: root, or whoever it was left to by those that may make folders there
};

/// Whether a folder says that a group shares what is made in it: it may write there, and others may not.
inline bool is_for_group(const struct ::stat& folder) noexcept {
  return (folder.st_mode & S_IWGRP) != 0 && (folder.st_mode & S_IWOTH) == 0;
}
/// Of the open folder `cache`, which lies in the open folder `named`.
CacheTrust trust_in(int named, int cache) noexcept;
/// Whether a file of such a folder, whose owner is `owner`, is believed.
bool is_trusted_file(CacheTrust trust, ::uid_t owner, const struct ::stat& file) noexcept;

}  // namespace torch_distinput
