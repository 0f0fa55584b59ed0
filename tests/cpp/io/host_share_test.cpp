// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/host_share.h"

#include <csignal>

#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/host_deal.h"
#include "io/sample_files.h"

namespace torch_distinput {
namespace {

using namespace files_testing;
namespace fs = std::filesystem;
using State = SharedEntry::State;

constexpr std::uint64_t kMost = 1000;

/// A temporary folder in memory: a share keeps half of its file system free, and disks are often full.
class MemoryFolder {
 public:
  MemoryFolder() {
    std::string path = "/dev/shm/tdi-tests-XXXXXX";
    if (::mkdtemp(path.data()) == nullptr) std::abort();
    path_ = path;
  }
  ~MemoryFolder() { fs::remove_all(path_); }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;
  std::string path(const std::string& name) const { return path_ / name; }

 private:
  fs::path path_;
};

/// What `entry` has for its reader; the state is in `state`.
std::string read(SharedEntry& entry, State& state) {
  std::string text;
  state = entry.look(kMost, [&](std::span<const char> bytes) {
    text.assign(bytes.begin(), bytes.end());
    return true;
  });
  return text;
}

State look(SharedEntry& entry) {
  State state{};
  read(entry, state);
  return state;
}

void publish(HostShare& share, const std::string& key, const std::string& text) {
  SharedEntry entry(share, key);
  ASSERT_EQ(look(entry), State::kMine);
  entry.publish(text);
}

/// The one file of an entry in the folder.
fs::path entry_file(const std::string& folder) {
  for (const auto& file : fs::directory_iterator(folder)) {
    const std::string name = file.path().filename().string();
    if (name != "users" && name != "room") return file.path();
  }
  return {};
}

/// A child that calls `work`, tells that it has, and waits to be killed.
template <class Work>
::pid_t start_child(Work work) {
  int done[2];
  if (::pipe(done) != 0) std::abort();
  const ::pid_t child = ::fork();
  if (child == 0) {
    work();
    static_cast<void>(::write(done[1], "x", 1) == 1);
    while (true) ::pause();
  }
  char told;
  ::close(done[1]);
  EXPECT_EQ(::read(done[0], &told, 1), 1);
  ::close(done[0]);
  return child;
}

void kill_child(::pid_t child) {
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
}

TEST(HostShare, IsGoneAfterItsLastUser) {
  const MemoryFolder folder;
  const std::string path = folder.path("share");
  {
    HostShare first(path);
    ASSERT_GE(first.folder(), 0);
    struct ::stat status;
    ASSERT_EQ(::stat(path.c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0700U);
    {
      HostShare second(path);
      publish(second, "key", "text");
    }
    SharedEntry entry(first, "key");
    EXPECT_EQ(look(entry), State::kReady);
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST(HostShare, OutlivesItsUserInAChild) {
  const MemoryFolder folder;
  const std::string path = folder.path("share");
  auto share = std::make_unique<HostShare>(path);
  publish(*share, "key", "text");
  const ::pid_t child = start_child([] {});
  share.reset();
  EXPECT_TRUE(fs::exists(path));
  kill_child(child);
  HostShare(path).leave();
  EXPECT_FALSE(fs::exists(path));
}

TEST(HostShare, IsClearedOfWhatAKilledProcessLeft) {
  const MemoryFolder folder;
  const std::string path = folder.path("share");
  kill_child(start_child([&] {
    static auto& share = *new HostShare(path);
    publish(share, "key", "text");
  }));
  EXPECT_FALSE(entry_file(path).empty());
  const HostShare share(path);
  EXPECT_TRUE(entry_file(path).empty());
}

TEST(HostShare, RemovesOnlyWhatItHasMade) {
  const MemoryFolder folder;
  const std::string path = folder.path("share");
  fs::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  for (const char* name : {"/notes", "/0123456789abcdef.txt"}) std::ofstream(path + name) << "a user's";
  {
    HostShare share(path);
    publish(share, "key", "text");
  }
  std::size_t left = 0;
  for (const auto& file : fs::directory_iterator(path)) left += fs::file_size(file) > 0 ? 1 : 0;
  EXPECT_EQ(left, 2U);
  EXPECT_FALSE(fs::exists(path + "/users"));
}

TEST(HostShare, RefusesWhatOthersHaveAccessTo) {
  const MemoryFolder folder;
  const std::string path = folder.path("share");
  fs::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  EXPECT_EQ(HostShare(path).folder(), -1);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  EXPECT_GE(HostShare(path).folder(), 0);

  const std::string link = folder.path("link");
  fs::create_directory(folder.path("real"));
  ASSERT_EQ(::chmod(folder.path("real").c_str(), 0700), 0);
  fs::create_symlink(folder.path("real"), link);
  EXPECT_EQ(HostShare(link).folder(), -1);
  std::ofstream(folder.path("file")).close();
  EXPECT_EQ(HostShare(folder.path("file")).folder(), -1);
  EXPECT_EQ(HostShare(folder.path("none/share")).folder(), -1);
  HostShare none("");
  SharedEntry entry(none, "key");
  EXPECT_EQ(look(entry), State::kAlone);
}

TEST(HostShare, RefusesTheFolderOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  const MemoryFolder folder;
  const std::string path = folder.path("share");
  fs::create_directory(path);
  ASSERT_EQ(::chmod(path.c_str(), 0700), 0);
  ASSERT_EQ(::chown(path.c_str(), 12345, 12345), 0);
  EXPECT_EQ(HostShare(path).folder(), -1);
}

TEST(HostShare, BoundsWhatItsEntriesTake) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  EXPECT_FALSE(share.take_room((std::uint64_t{256} << 20) + 1));
  constexpr std::uint64_t kPiece = std::uint64_t{128} << 20;
  int pieces = 0;
  while (pieces <= 8 && share.take_room(kPiece)) ++pieces;
  if (pieces == 0) GTEST_SKIP() << "half of the file system is in use";
  // What was counted is not there: counting again, where there is no more room, finds that.
  EXPECT_EQ(pieces, 9);
  publish(share, "old", "text");
  const fs::path old = entry_file(folder.path("share"));
  fs::last_write_time(old, fs::file_time_type::clock::now() - std::chrono::hours(1));
  for (int i = 0; i < 8; ++i) share.take_room(kPiece);
  EXPECT_FALSE(fs::exists(old));
}

TEST(SharedEntry, IsMadeByOneAndReadByTheOthers) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  SharedEntry maker(share, "key"), reader(share, "key"), other(share, "another key");
  ASSERT_EQ(look(maker), State::kMine);
  EXPECT_EQ(look(reader), State::kBusy);
  EXPECT_EQ(look(other), State::kMine);
  maker.report(7);
  EXPECT_EQ(look(reader), State::kBusy);
  EXPECT_EQ(reader.done(), 7U);
  maker.publish(std::string("text"));
  State state{};
  EXPECT_EQ(read(reader, state), "text");
  EXPECT_EQ(state, State::kReady);
  EXPECT_EQ(reader.look(3, [](std::span<const char>) { return true; }), State::kMine) << "more than `most`";
}

TEST(SharedEntry, PassesToTheNextWhenItsMakerIsKilled) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  const ::pid_t child = start_child([&] {
    auto& entry = *new SharedEntry(share, "key");
    if (look(entry) == State::kMine) entry.report(5);
  });
  SharedEntry entry(share, "key");
  EXPECT_EQ(look(entry), State::kBusy);
  kill_child(child);
  EXPECT_EQ(look(entry), State::kMine);
}

TEST(SharedEntry, PassesToTheNextThoughAChildOfItsMakerLives) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  SharedEntry next(share, "key");
  ::pid_t child = 0;
  {
    SharedEntry interrupted(share, "key");
    ASSERT_EQ(look(interrupted), State::kMine);
    child = start_child([] {});
    EXPECT_EQ(look(next), State::kBusy);
  }
  EXPECT_EQ(look(next), State::kMine);
  kill_child(child);
}

TEST(SharedEntry, IsNotWaitedForWhileItsMakerStandsStill) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  SharedEntry frozen(share, "key");
  ASSERT_EQ(look(frozen), State::kMine);
  SharedEntry impatient(share, "key", std::chrono::milliseconds(0));
  EXPECT_EQ(look(impatient), State::kAlone);
  impatient.publish(std::string("of one that works alone"));
  SharedEntry patient(share, "key");
  EXPECT_EQ(look(patient), State::kBusy);
}

TEST(SharedEntry, ThatCannotBeMadeIsMadeByEachForItself) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  SharedEntry maker(share, "key"), waits(share, "key"), later(share, "key");
  ASSERT_EQ(look(maker), State::kMine);
  ASSERT_EQ(look(waits), State::kBusy);
  maker.refuse();
  EXPECT_EQ(look(waits), State::kAlone);
  EXPECT_EQ(look(later), State::kMine);
}

TEST(SharedEntry, ThatIsDamagedIsMadeAgain) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  publish(share, "key", "text");
  const fs::path file = entry_file(folder.path("share"));
  std::ostringstream whole;
  whole << std::ifstream(file, std::ios::binary).rdbuf();
  const std::string good = whole.str();
  const auto write = [&](const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; };
  for (std::size_t place = 0; place < good.size(); ++place) {
    std::string bad = good;
    bad[place] = static_cast<char>(bad[place] ^ 0x41);
    write(bad);
    SharedEntry entry(share, "key");
    State state{};
    const std::string text = read(entry, state);
    // What the maker has reported does not matter once the entry is complete.
    EXPECT_TRUE(state == State::kMine || text == "text") << place;
    EXPECT_TRUE(place < 16 || place >= 24 ? state == State::kMine : state == State::kReady) << place;
  }
  for (std::size_t size = 0; size < good.size(); ++size) {
    write(good.substr(0, size));
    SharedEntry entry(share, "key");
    EXPECT_EQ(look(entry), State::kMine) << size;
  }
  publish(share, "key", "text");
  SharedEntry entry(share, "key");
  EXPECT_EQ(look(entry), State::kReady);
  SharedEntry doubtful(share, "key");
  EXPECT_EQ(doubtful.look(kMost, [](std::span<const char>) { return false; }), State::kMine);
}

TEST(SharedEntry, OfAnotherKeyUnderItsNameIsRefused) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  publish(share, "key", "text");
  const fs::path file = entry_file(folder.path("share"));
  fs::rename(file, folder.path("other"));
  publish(share, "yek", "other text");
  fs::rename(folder.path("other"), entry_file(folder.path("share")));
  SharedEntry entry(share, "yek");
  EXPECT_EQ(look(entry), State::kMine);
}

TEST(SharedEntry, ThatOthersMayWriteToIsRefused) {
  const MemoryFolder folder;
  HostShare share(folder.path("share"));
  publish(share, "key", "text");
  const std::string file = entry_file(folder.path("share"));
  ASSERT_EQ(::chmod(file.c_str(), 0644), 0);
  SharedEntry readable(share, "key");
  EXPECT_EQ(look(readable), State::kAlone);
  ASSERT_EQ(::chmod(file.c_str(), 0600), 0);
  fs::rename(file, folder.path("elsewhere"));
  fs::create_symlink(folder.path("elsewhere"), file);
  SharedEntry linked(share, "key");
  EXPECT_EQ(look(linked), State::kAlone);
  fs::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  SharedEntry piped(share, "key");
  EXPECT_EQ(look(piped), State::kAlone);
}

TEST(HostDeal, GivesEachHostItsFilesFirstAndEachFileToOneHost) {
  std::vector<int> owners(10, 0);
  for (std::size_t number = 0; number < 3; ++number) {
    const HostDeal deal = deal_files(10, {number, 3});
    std::vector<bool> seen(10, false);
    for (const std::size_t file : deal.order) seen[file] = true;
    EXPECT_EQ(seen, std::vector<bool>(10, true));
    for (std::size_t i = 0; i < deal.own; ++i) ++owners[deal.order[i]];
  }
  EXPECT_EQ(owners, std::vector<int>(10, 1));
  EXPECT_EQ(deal_files(10, {}).own, 10U);
}

TEST(HostDeal, TakesItsPlaceFromTheLauncher) {
  const auto place_with = [](const char* number, const char* hosts) {
    ::setenv("GROUP_RANK", number, 1);
    ::setenv("GROUP_WORLD_SIZE", hosts, 1);
    const HostPlace place = host_place();
    ::unsetenv("GROUP_RANK");
    ::unsetenv("GROUP_WORLD_SIZE");
    return std::pair(place.number, place.hosts);
  };
  const std::pair<std::size_t, std::size_t> single(0, 1);
  EXPECT_EQ(place_with("2", "5"), std::pair(std::size_t{2}, std::size_t{5}));
  for (const auto& [number, hosts] : {std::pair("5", "5"), {"-1", "5"}, {"x", "5"}, {"1", ""}, {"0", "0"}})
    EXPECT_EQ(place_with(number, hosts), single) << number << " of " << hosts;
}

}  // namespace
}  // namespace torch_distinput
