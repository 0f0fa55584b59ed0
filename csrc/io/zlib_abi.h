// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The part of zlib's binary interface that reading and writing need, unchanged since zlib 1.2.0.4 (2003).
/// Every Linux has the library (`libz.so.1`; Debian's package manager itself needs it), but its header
/// belongs to a development package that may be missing, and no Python package provides it. The names and the
/// order of members are zlib's; zlib.h documents them.

extern "C" {

struct TdiZStream {
  const unsigned char* next_in;
  unsigned int avail_in;
  unsigned long total_in;  // NOLINT(google-runtime-int): as zlib declares it
  unsigned char* next_out;
  unsigned int avail_out;
  unsigned long total_out;  // NOLINT(google-runtime-int)
  const char* msg;
  void* state;
  void* (*zalloc)(void*, unsigned int, unsigned int);
  void (*zfree)(void*, void*);
  void* opaque;
  int data_type;
  unsigned long adler;     // NOLINT(google-runtime-int)
  unsigned long reserved;  // NOLINT(google-runtime-int)
};

int inflateInit2_(TdiZStream* stream, int window_bits, const char* version, int stream_size);
int inflate(TdiZStream* stream, int flush);
int inflateReset(TdiZStream* stream);
int inflateEnd(TdiZStream* stream);
int deflateInit2_(TdiZStream* stream, int level, int method, int window_bits, int memory, int strategy,
                  const char* version, int stream_size);
int deflate(TdiZStream* stream, int flush);
int deflateEnd(TdiZStream* stream);
unsigned long crc32(unsigned long crc, const unsigned char* bytes,  // NOLINT(google-runtime-int)
                    unsigned int size);
const char* zlibVersion();
}
