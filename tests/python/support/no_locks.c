/* Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0 */
/* A file system whose locks keep nobody out, as some network file systems are: for LD_PRELOAD. */
int flock(int file, int operation) {
  (void)file;
  (void)operation;
  return 0;
}
