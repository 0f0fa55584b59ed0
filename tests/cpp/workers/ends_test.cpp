// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "workers/consumer_end.h"
#include "workers/process_watch.h"
#include "workers/processes.h"
#include "workers/worker_end.h"

namespace torch_distinput {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

/// A worker that answers each task with the slab that holds `task`'s bytes; ends after the task "end".
void echo(const std::shared_ptr<WorkerMemory>& memory, int id) {
  WorkerEnd worker(memory, id);
  std::string task;
  while (!worker.stopped()) {
    if (!worker.receive(task)) {
      worker.wait(50ms);
      continue;
    }
    if (task == "end") return;
    const std::uint64_t slab = worker.allocate(task.size());
    std::memcpy(worker.at(slab), task.data(), task.size());
    worker.send(std::to_string(slab) + " " + std::to_string(task.size()));
    while (!worker.flushed() && !worker.stopped()) worker.wait(50ms);
  }
}

/// The next result as the bytes in its slab; waits up to 10 s. Empty where none came.
std::string next_result(ConsumerEnd& consumer, std::shared_ptr<char>* held = nullptr) {
  std::string result;
  const Clock::time_point limit = Clock::now() + 10s;
  while (Clock::now() < limit) {
    const int worker = consumer.receive(result);
    if (worker >= 0) {
      const std::shared_ptr<char> slab = SlabsInUse::hold(consumer.slabs(), worker, std::stoull(result));
      if (held != nullptr) *held = slab;
      return {slab.get(), std::stoul(result.substr(result.find(' ')))};
    }
    consumer.wait(50ms);
  }
  return {};
}

/// The memory of one worker, and the consumer's end.
class WorkerEndsTest : public ::testing::Test {
 protected:
  std::shared_ptr<WorkerMemory> memory_ = std::make_shared<WorkerMemory>(1);
  ConsumerEnd consumer_{memory_};
};

TEST_F(WorkerEndsTest, TasksBeforeOnesThatArePassedOverAreNotWanted) {
  WorkerEnd worker(memory_, 0);
  std::string task;
  for (const char* sent : {"begun", "waits", "waits, too"}) consumer_.send(0, sent);
  ASSERT_TRUE(worker.receive(task));
  EXPECT_TRUE(worker.wanted());
  consumer_.pass_over(0);
  consumer_.send(0, "later");
  EXPECT_FALSE(worker.wanted());
  for (const bool wanted : {false, false, true}) {
    ASSERT_TRUE(worker.receive(task));
    EXPECT_EQ(worker.wanted(), wanted) << task;
  }
  EXPECT_EQ(task, "later");
}

TEST_F(WorkerEndsTest, ANewProcessIsSentWhatIsWanted) {
  consumer_.send(0, "old");
  consumer_.pass_over(0);
  consumer_.renew(0);
  consumer_.send(0, "new");
  WorkerEnd worker(memory_, 0);
  std::string task;
  ASSERT_TRUE(worker.receive(task));
  EXPECT_EQ(task, "new");
  EXPECT_TRUE(worker.wanted());
}

TEST(TwoWorkersTest, ResultsOfProcessesArriveAndKeptOnesStay) {
  const auto memory = std::make_shared<WorkerMemory>(2);
  ConsumerEnd consumer(memory);
  const ChildProcess first([&] { echo(memory, 0); });
  const ChildProcess second([&] { echo(memory, 1); });
  std::vector<std::shared_ptr<char>> kept(3);
  std::vector<std::string> texts(3);
  for (int i = 0; i < 3; ++i) {
    consumer.send(0, "kept " + std::to_string(i));
    texts[i] = next_result(consumer, &kept[i]);
    EXPECT_EQ(texts[i], "kept " + std::to_string(i));
  }
  for (int i = 0; i < 500; ++i) {
    consumer.send(i % 2, "task " + std::to_string(i));
    ASSERT_EQ(next_result(consumer), "task " + std::to_string(i));
  }
  for (int i = 0; i < 3; ++i) EXPECT_EQ(std::string(kept[i].get(), texts[i].size()), texts[i]);
  memory->stop();
}

TEST_F(WorkerEndsTest, TasksAndResultsMayBeLargerThanTheRings) {
  const std::string large(5 * WorkerMemory::kRing + 3, 'l');
  for (int i = 0; i < 4; ++i) consumer_.send(0, large + std::to_string(i));
  const ChildProcess worker([&] { echo(memory_, 0); });
  for (int i = 0; i < 4; ++i) ASSERT_EQ(next_result(consumer_), large + std::to_string(i));
  memory_->stop();
}

TEST_F(WorkerEndsTest, ReceivingAResultWakesItsWorkerOnlyIfThatWaitsForRoom) {
  WorkerEnd worker(memory_, 0);
  std::string result;
  const Bell& bell = memory_->control(0).to_worker;
  const std::uint32_t heard = bell.listen();
  worker.send("result");
  ASSERT_EQ(consumer_.receive(result), 0);
  EXPECT_EQ(bell.listen(), heard);
  worker.send(std::string(2 * WorkerMemory::kRing, 'l'));
  EXPECT_EQ(consumer_.receive(result), -1);
  EXPECT_NE(bell.listen(), heard);
}

TEST_F(WorkerEndsTest, AnUnrelatedProcessAttachesByDescriptor) {
  const ChildProcess worker([&] { echo(WorkerMemory::attach(::dup(memory_->segment().fd())), 0); });
  consumer_.send(0, "hello");
  EXPECT_EQ(next_result(consumer_), "hello");
  memory_->stop();
}

TEST(KilledWorkerTest, AKilledWorkerLeavesOnlyWholeResults) {
  for (int round = 0; round < 20; ++round) {
    const auto memory = std::make_shared<WorkerMemory>(1);
    ConsumerEnd consumer(memory);
    ChildProcess worker([&] { echo(memory, 0); });
    for (int i = 0; i < 2000; ++i) consumer.send(0, std::to_string(i));
    for (int i = 0; i < 20 * round; ++i) ASSERT_EQ(next_result(consumer), std::to_string(i));
    worker.kill(SIGKILL);
    worker.wait();
    std::string result;
    for (int i = 20 * round; consumer.receive(result) >= 0; ++i) {
      const std::string text(memory->segment().data() + std::stoull(result), std::to_string(i).size());
      ASSERT_EQ(text, std::to_string(i));
    }
  }
}

TEST_F(WorkerEndsTest, AForkOfTheConsumerNeitherFreesNorCountsAsItself) {
  WorkerEnd worker(memory_, 0);
  std::shared_ptr<char> held = SlabsInUse::hold(consumer_.slabs(), 0, worker.allocate(100));
  ChildProcess fork([&] {
    held.reset();
    ::_exit(worker.own() ? 1 : 0);
  });
  EXPECT_EQ(fork.wait(), 0);
  EXPECT_EQ(memory_->control(0).freed.top.load(), 0U);
  held.reset();
  EXPECT_NE(memory_->control(0).freed.top.load(), 0U);
}

TEST_F(WorkerEndsTest, ASlabReturnsOnlyWhenNoForkedChildCanSeeIt) {
  WorkerEnd worker(memory_, 0);
  const auto freed = [&] { return memory_->control(0).freed.top.load() != 0; };
  std::shared_ptr<char> held = SlabsInUse::hold(consumer_.slabs(), 0, worker.allocate(100));
  ChildProcess sees([] { ::pause(); });
  std::shared_ptr<char> younger = SlabsInUse::hold(consumer_.slabs(), 0, worker.allocate(5000));
  held.reset();
  EXPECT_FALSE(freed());
  younger.reset();  // made after the fork
  EXPECT_TRUE(freed());
  worker.allocate(5000);
  EXPECT_FALSE(freed());
  sees.kill(SIGKILL);
  sees.wait();
  const std::shared_ptr<char> next = SlabsInUse::hold(consumer_.slabs(), 0, worker.allocate(100));
  EXPECT_TRUE(freed());
}

TEST_F(WorkerEndsTest, TheEndGivesMemoryBackExceptWhatIsInUse) {
  WorkerEnd worker(memory_, 0);
  constexpr std::uint64_t kBytes = 1 << 20;
  const std::uint64_t kept = worker.allocate(kBytes);
  const std::uint64_t free = worker.allocate(kBytes);
  std::memset(worker.at(kept), 1, kBytes);
  std::memset(worker.at(free), 2, kBytes);
  std::shared_ptr<char> held = SlabsInUse::hold(consumer_.slabs(), 0, kept);
  consumer_.slabs()->end();
  EXPECT_EQ(held.get()[kBytes / 2], 1);
  EXPECT_EQ(worker.at(free)[kBytes / 2], 0);
  held.reset();
  EXPECT_EQ(worker.at(kept)[kBytes / 2], 0);
}

TEST_F(WorkerEndsTest, AProcessThatReplacesAWorkerSparesTheSlabsInUse) {
  WorkerEnd first(memory_, 0);
  constexpr std::uint64_t kBytes = 1 << 20;
  const std::uint64_t unused = first.allocate(kBytes);
  const std::uint64_t kept = first.allocate(kBytes);
  const std::uint64_t freed = first.allocate(kBytes);
  for (const std::uint64_t slab : {unused, kept, freed}) std::memset(first.at(slab), 1, kBytes);
  std::shared_ptr<char> held = SlabsInUse::hold(consumer_.slabs(), 0, kept);
  SlabsInUse::hold(consumer_.slabs(), 0, freed);
  consumer_.renew(0);
  EXPECT_EQ(first.at(unused)[kBytes / 2], 0);
  EXPECT_EQ(first.at(freed)[kBytes / 2], 0);
  WorkerEnd second(memory_, 0);
  const std::uint64_t next = second.allocate(kBytes);
  std::memset(second.at(next), 2, kBytes);
  EXPECT_EQ(std::string(held.get(), kBytes), std::string(kBytes, 1));
  held.reset();
  EXPECT_EQ(second.allocate(kBytes), kept);
}

TEST(KilledWorkerTest, AProcessThatReplacesAWorkerGetsOnlyNewTasks) {
  const auto memory = std::make_shared<WorkerMemory>(1);
  ConsumerEnd consumer(memory);
  const std::string large(3 * WorkerMemory::kRing, 'l');
  for (int round = 0; round < 10; ++round) {
    ChildProcess worker([&] { echo(memory, 0); });
    for (int i = 0; i < 100; ++i) consumer.send(0, large + std::to_string(i));
    for (int i = 0; i < 5 * round; ++i) ASSERT_EQ(next_result(consumer), large + std::to_string(i));
    worker.kill(SIGKILL);
    worker.wait();
    std::string result;
    while (consumer.receive(result) >= 0) {
    }
    consumer.renew(0);
  }
  const ChildProcess last([&] { echo(memory, 0); });
  consumer.send(0, "new");
  EXPECT_EQ(next_result(consumer), "new");
  memory->stop();
}

TEST_F(WorkerEndsTest, AWorkerTellsWhatItDoes) {
  EXPECT_EQ(consumer_.activity(0).kind, Activity::Kind::kStarting);
  EXPECT_EQ(consumer_.activity(0).stack_fd, -1);
  WorkerEnd worker(memory_, 0);
  worker.activity().announce(0);
  worker.activity().begin(7);
  const Activity busy = consumer_.activity(0);
  EXPECT_EQ(busy.kind, Activity::Kind::kBusy);
  EXPECT_EQ(busy.task, 7);
  EXPECT_EQ(busy.stack_fd, 0);
  EXPECT_GE(consumer_.activity(0).duration, busy.duration);
  worker.activity().end();
  EXPECT_EQ(consumer_.activity(0).kind, Activity::Kind::kIdle);
  consumer_.renew(0);
  EXPECT_EQ(consumer_.activity(0).kind, Activity::Kind::kStarting);
}

TEST(ProcessWatchTest, AProcessEndsWithTheOneThatItServes) {
  int pipe[2];
  ASSERT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
  ChildProcess served([&] { ::pause(); });
  ChildProcess busy([&] {
    end_with_process(served.id(), false, 10ms);
    if (::write(pipe[1], "x", 1) != 1) ::_exit(1);
    while (true) {
    }
  });
  char byte = 0;
  ASSERT_EQ(::read(pipe[0], &byte, 1), 1);
  served.kill(SIGKILL);
  served.wait();
  EXPECT_TRUE(WIFEXITED(busy.wait()));
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(SharedSegmentTest, ItsSizeIsSealed) {
  const SharedSegment segment(1 << 20);
  EXPECT_NE(::ftruncate(segment.fd(), 1 << 10), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(segment.fd(), 1 << 22), 0);
}

}  // namespace
}  // namespace torch_distinput
