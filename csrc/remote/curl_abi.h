// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

/// \file
/// The part of libcurl's binary interface that requests need, kept since libcurl 7.68 (2020). The library is
/// on nearly every Linux (`libcurl.so.4`), and pycurl's wheel brings it along; neither has its headers. The
/// names and numbers are libcurl's; curl.h and multi.h document them.

namespace torch_distinput::curl {

struct Easy;   ///< CURL
struct Multi;  ///< CURLM
struct List;   ///< curl_slist

/// CURLMsg: what became of a transfer.
struct Message {
  int kind;
  Easy* easy;
  union {
    void* whatever;
    int result;
  } data;
};
inline constexpr int kMessageDone = 1;

// CURLoption
inline constexpr int kWriteData = 10001;
inline constexpr int kUrl = 10002;
inline constexpr int kErrorBuffer = 10010;
inline constexpr int kPostFields = 10015;
inline constexpr int kUserAgent = 10018;
inline constexpr int kHttpHeader = 10023;
inline constexpr int kHeaderData = 10029;
inline constexpr int kCustomRequest = 10036;
inline constexpr int kNoBody = 44;
inline constexpr int kPostFieldSize = 60;
inline constexpr int kCaInfo = 10065;
inline constexpr int kFreshConnect = 74;
inline constexpr int kHttpVersion = 84;
inline constexpr int kBufferSize = 98;
inline constexpr int kNoSignal = 99;
inline constexpr int kPrivate = 10103;
inline constexpr int kConnectTimeoutMs = 156;
inline constexpr int kProtocols = 181;
inline constexpr int kTcpKeepAlive = 213;
inline constexpr int kPathAsIs = 234;
inline constexpr int kSuppressConnectHeaders = 265;
inline constexpr int kMaxAgeConn = 288;
inline constexpr int kWriteFunction = 20011;
inline constexpr int kHeaderFunction = 20079;
// CURLMoption
inline constexpr int kMaxConnects = 6;
inline constexpr int kTimerData = 10005;
inline constexpr int kSocketData = 10002;
inline constexpr int kSocketFunction = 20001;
inline constexpr int kTimerFunction = 20004;
// values
inline constexpr long kHttp11 = 2;         // NOLINT(google-runtime-int): as libcurl takes it
inline constexpr long kHttpAndHttps = 3;   // NOLINT(google-runtime-int)
inline constexpr long kGlobalDefault = 3;  // NOLINT(google-runtime-int)
inline constexpr int kErrorBytes = 256;
// CURL_POLL_*: what of a socket is awaited; and CURL_CSELECT_*: what has happened to it
inline constexpr int kPollIn = 1;
inline constexpr int kPollOut = 2;
inline constexpr int kPollRemove = 4;
inline constexpr int kSelectIn = 1;
inline constexpr int kSelectOut = 2;
inline constexpr int kSocketTimeout = -1;  ///< instead of a socket: the timer has run out
// CURLcode
inline constexpr int kOk = 0;
inline constexpr int kUnsupportedProtocol = 1;
inline constexpr int kMalformedUrl = 3;
inline constexpr int kOutOfMemory = 27;
inline constexpr int kPeerNotVerified = 60;
inline constexpr int kBadCaFile = 77;

/// The functions, as they were found in the library.
struct Functions {
  int (*global_init)(long flags);  // NOLINT(google-runtime-int)
  const char* (*version)();
  Easy* (*easy_init)();
  void (*easy_cleanup)(Easy*);
  int (*easy_setopt)(Easy*, int option, ...);
  int (*easy_getinfo)(Easy*, int info, ...);
  const char* (*easy_strerror)(int code);
  List* (*slist_append)(List*, const char*);
  void (*slist_free_all)(List*);
  Multi* (*multi_init)();
  int (*multi_cleanup)(Multi*);
  int (*multi_setopt)(Multi*, int option, ...);
  int (*multi_add_handle)(Multi*, Easy*);
  int (*multi_remove_handle)(Multi*, Easy*);
  int (*multi_socket_action)(Multi*, int socket, int events, int* running);
  Message* (*multi_info_read)(Multi*, int* left);
};
inline constexpr int kInfoPrivate = 0x100000 + 21;

}  // namespace torch_distinput::curl
