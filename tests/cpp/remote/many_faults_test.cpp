// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include <gtest/gtest.h>

#include "remote/over_http.h"

namespace torch_distinput::http_testing {
namespace {

constexpr std::size_t kObject = 300'000;
constexpr std::uint64_t kMostBytes = 20'000;
/// Threads that read.
constexpr std::size_t kReaders = 64;

/// Faults of a run; more with the environment's TDI_FAULTS.
int faults() {
  const char* const asked = std::getenv("TDI_FAULTS");
  return asked == nullptr ? 2'000 : std::atoi(asked);
}

std::ptrdiff_t entries_of(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

/// A server that fails one answer in five, each time in another way, and counts that.
class FailingServer {
 public:
  explicit FailingServer(std::uint64_t seed)
      : random_(seed), server_(random_object(kObject), [this](const Asked& asked, Reply right) {
          return answer(asked, std::move(right));
        }) {}

  HttpServer& server() { return server_; }
  /// How often each fault has happened.
  std::map<std::string, int> counts() const {
    const std::lock_guard lock(mutex_);
    return counts_;
  }
  int count() const { return count_; }

 private:
  struct Fault {
    std::string name;
    int share;  ///< beside the others
    std::function<Reply(Reply right, std::size_t drawn)> happen;
  };

  static std::vector<Fault> all() {
    using End = Reply::End;
    std::vector<Fault> faults;
    for (const int number : {408, 425, 500, 502, 504})
      faults.push_back({std::to_string(number), 15, [=](Reply, std::size_t) { return status(number); }});
    // Of these fewer than one answer in twenty: more are an overload, at which the client slows down.
    faults.push_back({"503", 5, [](Reply, std::size_t) { return status(503); }});
    faults.push_back({"429", 5, [](Reply, std::size_t) { return status(429, {{"Retry-After", "0"}}); }});
    const auto cut = [](End end) {
      return [=](Reply right, std::size_t drawn) {
        right.sent = drawn % (right.body.size() + 1);
        right.end = end;
        return right;
      };
    };
    faults.push_back({"closed", 30, cut(End::kClose)});
    faults.push_back({"reset", 30, cut(End::kReset)});
    faults.push_back({"half closed", 20, cut(End::kHalfClose)});
    faults.push_back({"silent", 4, cut(End::kHang)});
    const auto raw = [](const char* text, End end) {
      return [=](Reply, std::size_t) { return Reply{.end = end, .raw = text}; };
    };
    faults.push_back({"closed in the head", 20, raw("HTTP/1.1 206 OK\r\nETag", End::kClose)});
    faults.push_back({"reset in the head", 20, raw("HTTP/1.1 206 OK\r\n", End::kReset)});
    faults.push_back({"silent in the head", 4, raw("HTTP/1.1 206 OK\r\n", End::kHang)});
    faults.push_back({"no HTTP", 5, raw("SSH-2.0-OpenSSH_9.2\r\n\r\n", End::kClose)});
    faults.push_back({"trickle", 4, [](Reply right, std::size_t) {
                        right.rate = 20;
                        return right;
                      }});
    faults.push_back({"late", 10, [](Reply right, std::size_t drawn) {
                        right.delay = std::chrono::milliseconds(drawn % 150);
                        return right;
                      }});
    faults.push_back({"short", 20, [](Reply right, std::size_t drawn) {
                        right.body.resize(drawn % right.body.size());
                        return right;
                      }});
    faults.push_back({"long", 5, [](Reply right, std::size_t) {
                        right.body += "more";
                        return right;
                      }});
    faults.push_back({"another range", 5, [](Reply right, std::size_t) {
                        right.headers = {{"Content-Range", "bytes 0-9/" + std::to_string(kObject)}};
                        return right;
                      }});
    faults.push_back({"no range", 5, [](Reply right, std::size_t) {
                        right.headers.clear();
                        return right;
                      }});
    faults.push_back({"no content", 5, [](Reply, std::size_t) { return status(204); }});
    faults.push_back({"elsewhere", 10, [](Reply, std::size_t drawn) {
                        return status(302, {{"Location", "?" + std::to_string(drawn)}});
                      }});
    return faults;
  }

  Reply answer(const Asked&, Reply right) {
    std::size_t drawn = 0;
    const Fault* fault = nullptr;
    {
      const std::lock_guard lock(mutex_);
      drawn = random_() >> 8;
      if (random_() % 5 == 0) {
        fault = &draw();
        ++counts_[fault->name];
        ++count_;
      }
    }
    return fault == nullptr ? right : fault->happen(std::move(right), drawn);
  }

  const Fault& draw() {
    int sum = 0;
    for (const Fault& fault : faults_) sum += fault.share;
    auto left = static_cast<int>(random_() % static_cast<std::uint64_t>(sum));
    for (const Fault& fault : faults_)
      if ((left -= fault.share) < 0) return fault;
    return faults_.front();
  }

  const std::vector<Fault> faults_ = all();
  mutable std::mutex mutex_;
  std::mt19937_64 random_;
  std::map<std::string, int> counts_;
  std::atomic<int> count_{0};
  HttpServer server_;
};

/// Each transfer has a path of its own, so that the server's log tells how often it was asked for it.
std::string path_of(int number) { return "/object/" + std::to_string(number) + "/"; }

class ManyFaults : public OverHttp {};

TEST_F(ManyFaults, LoseAndRepeatNothing) {
  const std::ptrdiff_t descriptors = entries_of("/proc/self/fd");
  const std::ptrdiff_t threads = entries_of("/proc/self/task");
  {
    FailingServer failing(11);
    HttpServer& server = failing.server();
    FetchRules rules;
    rules.least_stall = 300 * kMillisecond;
    Engine engine(rules);
    std::atomic<int> transfers{0};
    std::atomic<std::uint64_t> bytes{0};
    const auto read = [&](std::uint64_t seed) {
      std::mt19937_64 random(seed);
      while (failing.count() < faults()) {
        const std::uint64_t offset = random() % kObject;
        const std::uint64_t size = 1 + random() % std::min<std::uint64_t>(kMostBytes, kObject - offset);
        const auto transfer = transfer_of(place_of(server.url(path_of(transfers++)), 120 * kSecond),
                                          {kObject, HttpServer::kTag}, {offset, size});
        engine.begin(transfer);
        const std::span<const char> got = transfer->wait(time_limit());
        ASSERT_EQ(std::string_view(got.data(), got.size()),
                  std::string_view(server.object()).substr(offset, size));
        bytes += size;
      }
    };
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> readers;
    for (std::size_t seed = 0; seed < kReaders; ++seed) readers.emplace_back(read, seed);
    for (std::thread& reader : readers) reader.join();
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

    // What the server counted.
    const std::map<std::string, int> counts = failing.counts();
    EXPECT_EQ(counts.size(), 23u) << "each kind of fault has happened";
    std::map<std::string, int> asked;
    for (const Asked& one : server.asked()) ++asked[one.path.substr(0, one.path.rfind('/'))];
    EXPECT_EQ(asked.size(), static_cast<std::size_t>(transfers.load()));
    int again = -counts.at("elsewhere");  // what was asked for at another place is no repetition
    int repeated = 0;
    for (const auto& [path, count] : asked) {
      again += count - 1;
      repeated += count > 1 ? 1 : 0;
    }
    // The repetitions at first, one for ten transfers, two a second, and one for each that was worth it.
    const double budget = 10 + 0.1 * transfers + 2 * seconds + repeated;
    const double hedges = 4 + 0.02 * transfers;
    EXPECT_LE(again, budget + hedges);
    const std::int64_t taken = engine.counts().body_bytes;
    EXPECT_GE(taken, static_cast<std::int64_t>(bytes.load()));
    EXPECT_LE(taken, static_cast<std::int64_t>(bytes.load() + counts.at("long") * (kMostBytes + 4)))
        << "no byte comes twice";
    std::cout << failing.count() << " faults, " << transfers << " transfers, " << server.requests()
              << " requests, of which " << again << " again (allowed: " << static_cast<int>(budget + hedges)
              << "), " << seconds << " s\n";
  }
  EXPECT_LE(entries_of("/proc/self/fd"), descriptors);
  EXPECT_LE(entries_of("/proc/self/task"), threads + 1) << "one may be on its way out";
}

}  // namespace
}  // namespace torch_distinput::http_testing
