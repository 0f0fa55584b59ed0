// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/remote_files.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include <pthread.h>

#include "base/current_poll.h"
#include "base/hash.h"
#include "base/slow_reads.h"
#include "base/stage.h"
#include "io/cache_limits.h"
#include "io/cached_object.h"
#include "io/job_share.h"
#include "io/shared_list.h"
#include "remote/announced_requests.h"
#include "remote/glob.h"
#include "remote/listing.h"
#include "remote/text.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr Nanos kPatience = 120 * kSecond;
/// A version that was seen longer ago is asked for again where someone wants to know it.
constexpr std::chrono::minutes kFresh{10};
/// The first bytes of so many objects are kept that nobody has opened.
constexpr std::size_t kMostHeads = 1024;

SigningTime signing_time() { return std::chrono::system_clock::now(); }

/// The scheme and the bucket, or host, of a URL; a file system of the user's may have none.
std::string bucket_of(const std::string& url) {
  const std::size_t scheme = url.find("://");
  if (scheme == std::string::npos)
    throw std::invalid_argument("the URL `" + shown_url(url) + "` has no scheme");
  return lower(url.substr(0, scheme)) + url.substr(scheme, url.find_first_of("/?#", scheme + 3) - scheme);
}

/// Whether the user gave some: others must not take their place.
bool has_credentials(const StorageOptions& options) {
  constexpr std::array kNames{"key", "secret", "session_token", "token", "sas_token"};
  return std::any_of(kNames.begin(), kNames.end(), [&](const char* name) { return options.contains(name); });
}

/// Takes the option "timeout" out of `options`.
Nanos take_patience(StorageOptions& options) {
  const auto given = options.find("timeout");
  if (given == options.end()) return kPatience;
  const std::string text = given->second;
  options.erase(given);
  double seconds = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (problem != std::errc() || end != text.data() + text.size() || !(seconds > 0 && seconds < 1e6)) {
    throw std::invalid_argument(
        "storage_options: \"timeout\" must be a number of seconds above 0, but is \"" + text + "\"");
  }
  return static_cast<Nanos>(seconds * kSecond);
}

/// Runs `call`, whose ObjectErrors become FileErrors.
template <class Call>
auto as_file(Call call) {
  try {
    return call();
  } catch (const ObjectError& error) {
    throw_file_error(error);
  } catch (const std::invalid_argument& problem) {
    throw_file_error({ObjectError::Kind::kUnusable, problem.what(), {}});
  }
}

/// The objects of a store, listed once for all ranks of the job on this host.
std::vector<ListedObject> list_in_job(const PlacePtr& place, const std::string& prefix) {
  return ask_in_job(
      "list of " + place->origin() + " " + prefix,
      [&](const Poll& poll) { return list_objects(place, prefix, poll); }, current_poll());
}

}  // namespace

void throw_file_error(const ObjectError& error) { throw RemoteFileError(error); }

RemoteFiles& RemoteFiles::of_process() {
  static auto& files = *new RemoteFiles;
  return files;
}

RemoteFiles::RemoteFiles() {
  // A child would wait without end for a lock that another thread of its parent held.
  ::pthread_atfork([] { of_process().mutex_.lock(); }, [] { of_process().mutex_.unlock(); },
                   [] { of_process().mutex_.unlock(); });
  std::atexit([] {
    for (DiskCache* const cache : of_process().all_caches_) cache->abandon();
  });
}

void RemoteFiles::configure(const std::string& url, StorageOptions options, CredentialCallback callback) {
  const Nanos patience = take_patience(options);
  if (!callback && !has_credentials(options)) {
    const std::lock_guard lock(mutex_);
    callback = default_callback_;
  }
  set_bucket(url, {.store = make_store(url, options, std::move(callback)), .patience = patience});
}

void RemoteFiles::set_file_system(const std::string& url, std::shared_ptr<FileSystem> files) {
  set_bucket(url, {.files = std::make_shared<const UserFileSystem>(std::move(files))});
}

void RemoteFiles::set_cache(const std::string& url, const std::string& folder, std::uint64_t max_bytes) {
  const std::string name = bucket_of(url);
  const std::lock_guard lock(mutex_);
  DiskCache* const made = cache_in(folder, max_bytes);
  const auto [known, is_new] = caches_.try_emplace(name, made);
  if (!is_new && std::exchange(known->second, made) == made) return;
  // Objects that are open go on as before.
  for (auto& [known_url, object] : known_) {
    if (bucket_of(known_url) == name) object.object.reset();
  }
}

std::vector<DiskCache*> RemoteFiles::caches(std::span<const std::string> urls) {
  std::vector<DiskCache*> found;
  for (const std::string& url : urls) {
    DiskCache* const at = user_files(url) ? nullptr : cache(url);
    if (at != nullptr && std::find(found.begin(), found.end(), at) == found.end()) found.push_back(at);
  }
  return found;
}

/// The cache of an object; null: none.
DiskCache* RemoteFiles::cache(const std::string& url) {
  const std::lock_guard lock(mutex_);
  const auto [known, is_new] = caches_.try_emplace(bucket_of(url), nullptr);
  if (is_new) known->second = cache_in(environment("TDI_CACHE"), 0);
  return known->second;
}

/// The cache in `folder`, with `mutex_` held.
DiskCache* RemoteFiles::cache_in(const std::string& folder, std::uint64_t max_bytes) {
  if (folder.empty()) return nullptr;
  CacheLimits limits = cache_limits();
  if (max_bytes != 0) limits.max_bytes = max_bytes;
  const std::string path = std::filesystem::absolute(folder).lexically_normal().string();
  for (DiskCache* const cache : all_caches_) {
    if (cache->folder() == path && cache->limits() == limits) return cache;
  }
  all_caches_.push_back(new DiskCache(path, limits));
  return all_caches_.back();
}

void RemoteFiles::set_default_credentials(CredentialCallback callback) {
  const std::lock_guard lock(mutex_);
  default_callback_ = std::move(callback);
}

/// What was known of the bucket's objects came from whoever had them before.
void RemoteFiles::set_bucket(const std::string& url, Bucket bucket) {
  const std::string name = bucket_of(url);
  const auto is_in_it = [&](const auto& entry) { return bucket_of(entry.first) == name; };
  Looks& looks = looks_.get();
  {
    const std::lock_guard lock(looks.mutex);
    std::erase_if(looks.running, is_in_it);
  }
  const std::lock_guard lock(mutex_);
  buckets_.insert_or_assign(name, std::move(bucket));
  std::erase_if(known_, is_in_it);
}

OpenObjectPtr RemoteFiles::open(const std::string& url) {
  return as_file([&] {
    const std::optional<Known> seen = known(url);
    if (seen) {
      if (OpenObjectPtr object = seen->object.lock()) return object;
    }
    const Known found = seen ? *seen : look(url);
    OpenObjectPtr opened;
    if (UserFileSystemPtr files = user_files(url)) {
      opened = std::make_shared<UserObject>(std::move(files), url, found.version);
    } else {
      const std::string_view head = found.head ? std::string_view(*found.head) : std::string_view();
      auto origin =
          std::make_shared<RemoteObject>(found.place ? found.place : place(url), found.version, head);
      DiskCache* const kept_in = found.version.tag.empty() ? nullptr : cache(url);
      opened = kept_in != nullptr ? OpenObjectPtr(CachedObject::make(std::move(origin), *kept_in)) : origin;
    }
    const std::lock_guard lock(mutex_);
    Known& kept = known_.try_emplace(url, found).first->second;
    OpenObjectPtr object = kept.object.lock();
    if (object != nullptr && kept.version == found.version) return object;
    kept.object = opened;
    kept.head = nullptr;
    return opened;
  });
}

ObjectVersion RemoteFiles::version(const std::string& url) {
  return as_file([&] {
    const std::optional<Known> seen = known(url);
    if (seen && Clock::now() - seen->seen < kFresh) return seen->version;
    Known found = look(url);
    const ObjectVersion version = found.version;
    remember(url, std::move(found));
    return version;
  });
}

std::optional<ObjectVersion> RemoteFiles::seen(const std::string& url) const {
  const std::optional<Known> seen = known(url);
  return seen ? std::optional(seen->version) : std::nullopt;
}

bool RemoteFiles::has_file_system(const std::string& url) {
  return as_file([&] { return user_files(url) != nullptr; });
}

void RemoteFiles::will_open(std::span<const std::string> urls) { begin_looks(urls_to_look_at_alone(urls)); }

/// Asks for the versions of `urls` once for all ranks of the job on this host, which open the same list.
/// Returns those that are not known then.
std::vector<std::string> RemoteFiles::urls_to_look_at_alone(std::span<const std::string> urls) {
  std::vector<std::string> unknown;
  Hash names;
  for (const std::string& url : urls) {
    if (!is_url(url)) continue;
    names.add(url + "\n");
    if (!known(url) && !user_files(url)) unknown.push_back(url);
  }
  if (unknown.size() < 2 || !job_on_host()) return unknown;
  as_file([&] {
    const std::string what = "versions of " + std::to_string(urls.size()) + " objects " +
                             std::to_string(names.value()) + " at " + place(unknown.front())->origin();
    remember(ask_in_job(what, [&](const Poll& poll) { return look_at_all(unknown, poll); }, current_poll()));
  });
  std::erase_if(unknown, [&](const std::string& url) { return known(url).has_value(); });
  return unknown;
}

/// What is known of these objects, but of those that cannot be looked at.
std::vector<ListedObject> RemoteFiles::look_at_all(std::span<const std::string> urls, const Poll& poll) {
  const PollScope scope(poll);
  begin_looks(urls);
  std::vector<ListedObject> found;
  for (const std::string& url : urls) {
    try {
      Known seen = look(url);
      found.push_back({.url = url, .size = seen.version.size, .tag = seen.version.tag});
      remember(url, std::move(seen));
    } catch (const ObjectError&) {
      // Who wants it gets the error.
    }
  }
  return found;
}

void RemoteFiles::begin_looks(std::span<const std::string> urls) {
  as_file([&] {
    Looks& looks = looks_.get();
    for (const std::string& url : urls) {
      if (!is_url(url) || known(url) || user_files(url)) continue;
      const PlacePtr at = place(url);
      at->store().prepare(signing_time());
      const std::lock_guard lock(looks.mutex);
      if (looks.running.contains(url)) continue;
      const auto transfer = std::make_shared<VersionTransfer>(at);
      Engine::of_process().begin(transfer);
      note_slow_read();
      looks.running.emplace(url, transfer);
    }
  });
}

void RemoteFiles::will_read(std::span<const std::string> urls) {
  std::vector<std::string> others;
  for (const std::string& url : urls) {
    if (!is_url(url)) continue;
    if (!known(url)) {
      others.push_back(url);
      continue;
    }
    const OpenObjectPtr object = open(url);
    const ByteRange whole{0, object->version().size};
    as_file([&] { object->will_read({&whole, 1}); });
  }
  if (AnnouncedRequests* const counted = AnnouncedRequests::current()) {
    // One for the version of each, and one for its bytes.
    const std::vector<ByteRange> requests(2 * others.size());
    return counted->add(requests);
  }
  begin_looks(others);
}

std::vector<std::string> RemoteFiles::match(const std::string& pattern) {
  if (!has_wildcard(pattern)) {
    version(pattern);
    return {pattern};
  }
  std::vector<std::string> names;
  for (const ListedObject& object : list(fixed_prefix(pattern))) {
    if (matches(pattern, object.url)) names.push_back(object.url);
  }
  return names;
}

std::vector<ListedObject> RemoteFiles::list(const std::string& prefix) {
  return as_file([&] {
    const UserFileSystemPtr files = user_files(prefix);
    std::vector<ListedObject> objects = files ? files->list(prefix) : list_in_job(place(prefix), prefix);
    remember(objects);
    return objects;
  });
}

void RemoteFiles::write(const std::string& url, std::string contents) {
  as_file([&] {
    if (user_files(url))
      throw ObjectError(ObjectError::Kind::kUnusable, "cannot be written: its `filesystem` is for reading",
                        {.url = shown_url(url)});
    const PlacePtr at = place(url);
    at->store().prepare(signing_time());
    with_fresh_credentials(at->store(), [&] {
      const auto transfer = std::make_shared<TextTransfer>(
          at, [at, &contents](SigningTime now) { return at->store().put(at->url(), contents, now); });
      Engine::of_process().begin(transfer);
      transfer->wait(current_poll());
    });
  });
  forget(url);
}

void RemoteFiles::forget(const std::string& url) {
  const std::lock_guard lock(mutex_);
  known_.erase(url);
}

RemoteFiles::Bucket RemoteFiles::bucket(const std::string& url) {
  const std::lock_guard lock(mutex_);
  const std::string name = bucket_of(url);
  const auto found = buckets_.find(name);
  if (found != buckets_.end()) return found->second;
  Bucket made{.store = make_store(url, {}, default_callback_), .patience = kPatience};
  return buckets_.emplace(name, std::move(made)).first->second;
}

UserFileSystemPtr RemoteFiles::user_files(const std::string& url) {
  const std::lock_guard lock(mutex_);
  const auto found = buckets_.find(bucket_of(url));
  return found == buckets_.end() ? nullptr : found->second.files;
}

PlacePtr RemoteFiles::place(const std::string& url) {
  try {
    Bucket at = bucket(url);
    // A callback may be asked for credentials: without the lock.
    at.store->prepare(signing_time());
    return std::make_shared<Place>(std::move(at.store), url, at.patience);
  } catch (const ObjectError&) {
    throw;
  } catch (const std::exception& problem) {
    throw ObjectError(ObjectError::Kind::kUnusable, problem.what(), {.url = shown_url(url)});
  }
}

std::optional<RemoteFiles::Known> RemoteFiles::known(const std::string& url) const {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(url);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}

RemoteFiles::Known RemoteFiles::known_by(const ObjectLook& look, PlacePtr place) {
  Known known{look.version, Clock::now(), std::move(place)};
  if (!look.head.empty()) known.head = std::make_shared<const std::string>(look.head);
  return known;
}

/// The version that there is now; the store may have been asked already.
RemoteFiles::Known RemoteFiles::look(const std::string& url) {
  if (const UserFileSystemPtr files = user_files(url)) return {files->look(url), Clock::now()};
  const NetworkWait waits;
  if (const auto running = running_look(url)) {
    try {
      return known_by(running->wait(current_poll()), running->place());
    } catch (const ObjectError& error) {
      if (error.kind() != ObjectError::Kind::kExpired) throw;
    }
  }
  PlacePtr at = place(url);
  try {
    const ObjectLook seen = look_at(at, current_poll());
    return known_by(seen, std::move(at));
  } catch (const ObjectError&) {
    throw;
  } catch (const std::runtime_error& problem) {  // there is no libcurl
    throw at->error(ObjectError::Kind::kUnusable, problem.what());
  }
}

/// The question that `will_open` has asked, which is the caller's from now on; null: none.
std::shared_ptr<VersionTransfer> RemoteFiles::running_look(const std::string& url) {
  Looks& looks = looks_.get();
  const std::lock_guard lock(looks.mutex);
  auto found = looks.running.extract(url);
  return found ? std::move(found.mapped()) : nullptr;
}

void RemoteFiles::remember(std::span<const ListedObject> objects) {
  for (const ListedObject& object : objects) {
    if (!object.tag.empty()) remember(object.url, {{object.size, object.tag}, Clock::now()});
  }
}

void RemoteFiles::remember(const std::string& url, Known known) {
  const std::lock_guard lock(mutex_);
  Known& kept = known_[url];
  if (kept.version == known.version) {
    known.object = kept.object;
    if (known.place == nullptr) known.place = kept.place;
    if (known.head == nullptr) known.head = kept.head;
  }
  if (known.head != nullptr && known.head != kept.head) with_heads_.push_back(url);
  kept = std::move(known);
  while (with_heads_.size() > kMostHeads) {
    if (const auto oldest = known_.find(with_heads_.front()); oldest != known_.end())
      oldest->second.head = nullptr;
    with_heads_.pop_front();
  }
}

}  // namespace torch_distinput
