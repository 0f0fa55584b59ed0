// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "fake_driver.h"

#include <array>
#include <atomic>
#include <cstdio>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

namespace torch_distinput::fake_driver {
namespace {

constexpr int kDevices = 2;

struct Context {
  int device;
  std::atomic<bool> active{false};
};

struct Stream {
  int device;
  unsigned flags;
  int capture_status = 0;
};

std::array<Context, kDevices> contexts{Context{0}, Context{1}};
std::mutex streams_mutex;
std::deque<Stream> streams;  // never removed, so that pointers to them stay valid
thread_local std::vector<Context*> stack;
thread_local int mode = 0;

}  // namespace

int capture_mode() { return mode; }
bool has_context(int device) { return contexts.at(static_cast<std::size_t>(device)).active; }
int current_device() { return stack.empty() ? -1 : stack.back()->device; }
int device_of(void* stream) { return static_cast<Stream*>(stream)->device; }
bool is_non_blocking(void* stream) { return static_cast<Stream*>(stream)->flags == 1; }
void set_capture_status(void* stream, int status) { static_cast<Stream*>(stream)->capture_status = status; }

}  // namespace torch_distinput::fake_driver

// NOLINTBEGIN: CUDA's names
using namespace torch_distinput::fake_driver;

extern "C" {

int cuThreadExchangeStreamCaptureMode(int* exchanged) {
  std::swap(mode, *exchanged);
  return 0;
}

int cuInit(unsigned) { return 0; }

int cuDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:4%d:00.0", device);
  return 0;
}

int cuDeviceGet(int* device, int ordinal) {
  if (ordinal < 0 || ordinal >= kDevices) return kInvalidDevice;
  *device = ordinal;
  return 0;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  Context& primary = contexts.at(static_cast<std::size_t>(device));
  primary.active = true;
  *context = &primary;
  return 0;
}

int cuCtxPushCurrent_v2(void* context) {
  stack.push_back(static_cast<Context*>(context));
  return 0;
}

int cuCtxPopCurrent_v2(void** context) {
  if (stack.empty()) return kInvalidContext;
  *context = stack.back();
  stack.pop_back();
  return 0;
}

int cuStreamCreate(void** stream, unsigned flags) {
  if (stack.empty()) return kInvalidContext;
  const std::lock_guard lock(streams_mutex);
  *stream = &streams.emplace_back(Stream{stack.back()->device, flags});
  return 0;
}

int cuStreamIsCapturing(void* stream, int* status) {
  *status = static_cast<Stream*>(stream)->capture_status;
  return 0;
}

}  // extern "C"
// NOLINTEND
