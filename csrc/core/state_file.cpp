// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

#include <c10/util/Exception.h>
#include <fcntl.h>
#include <unistd.h>

#include "torch_distinput/error.h"
#include "torch_distinput/state.h"

namespace torch_distinput {
namespace {

[[noreturn]] void fail(const char* call, const std::string& path, int code) {
  const std::string message = c10::str("State.", call, ": ", path, ": ", std::strerror(code), ".");
  if (code == ENOENT) throw NotFoundError(message);
  throw SystemError(message, code);
}

/// A file descriptor, closed at the end.
class StateFile {
 public:
  StateFile(const char* call, const std::string& path, int flags)
      : call_(call), path_(path), file_(::open(path.c_str(), flags | O_CLOEXEC, 0666)) {
    if (file_ < 0) fail(call_, path_, errno);
  }
  ~StateFile() { ::close(file_); }
  StateFile(const StateFile&) = delete;
  StateFile& operator=(const StateFile&) = delete;

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(file_, text.data(), text.size());
      if (written < 0 && errno != EINTR) fail(call_, path_, errno);
      if (written > 0) text.remove_prefix(static_cast<std::size_t>(written));
    }
    if (::fsync(file_) != 0) fail(call_, path_, errno);
  }

  std::string read() const {
    constexpr std::size_t kBlock = std::size_t{1} << 16;
    std::string text;
    for (ssize_t got = 1; got != 0;) {
      const std::size_t size = text.size();
      text.resize(size + kBlock);
      got = ::read(file_, text.data() + size, kBlock);
      if (got < 0 && errno != EINTR) fail(call_, path_, errno);
      const bool interrupted = got < 0;
      text.resize(size + static_cast<std::size_t>(interrupted ? 0 : got));
    }
    return text;
  }

 private:
  const char* call_;
  const std::string& path_;
  int file_;
};

}  // namespace

void State::save(const std::string& path) const {
  // Written beside the file and then renamed. The process's number keeps ranks that share a folder apart.
  const std::string beside = c10::str(path, ".", ::getpid(), ".tmp");
  try {
    StateFile("save", beside, O_WRONLY | O_CREAT | O_TRUNC).write(str() + "\n");
    if (std::rename(beside.c_str(), path.c_str()) != 0) fail("save", path, errno);
  } catch (...) {
    ::unlink(beside.c_str());
    throw;
  }
}

State State::load(const std::string& path) {
  const std::string text = StateFile("load", path, O_RDONLY).read();
  try {
    return parse(text);
  } catch (c10::Error& error) {
    error.add_context("State.load: " + path);
    throw;
  }
}

}  // namespace torch_distinput
