// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "io/remote_files.h"

#include <charconv>
#include <stdexcept>
#include <utility>

#include "base/current_poll.h"
#include "remote/glob.h"
#include "remote/listing.h"
#include "remote/url.h"

namespace torch_distinput {
namespace {

constexpr Nanos kPatience = 120 * kSecond;
/// A version that was seen longer ago is asked for again where someone wants to know it.
constexpr std::chrono::minutes kFresh{10};

SigningTime signing_time() { return std::chrono::system_clock::now(); }

std::string bucket_of(const std::string& url) {
  const Url parts = parse_url(url);
  return parts.scheme + "://" + parts.authority;
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
  }
}

}  // namespace

void throw_file_error(const ObjectError& error) { throw RemoteFileError(error); }

RemoteFiles& RemoteFiles::of_process() {
  static auto& files = *new RemoteFiles;
  return files;
}

void RemoteFiles::configure(const std::string& url, StorageOptions options, CredentialCallback callback) {
  const Nanos patience = take_patience(options);
  ObjectStorePtr store = make_store(url, options, std::move(callback));
  const std::lock_guard lock(mutex_);
  stores_.insert_or_assign(bucket_of(url), Store{std::move(store), patience});
}

RemoteObjectPtr RemoteFiles::open(const std::string& url) {
  return as_file([&] {
    std::optional<Known> seen = known(url);
    if (seen) {
      if (RemoteObjectPtr object = seen->object.lock()) return object;
    }
    const PlacePtr at = place(url);
    const ObjectVersion version = seen ? seen->version : look(at);
    const std::lock_guard lock(mutex_);
    Known& kept = known_.try_emplace(url, Known{version, Clock::now()}).first->second;
    RemoteObjectPtr object = kept.object.lock();
    if (object == nullptr) kept.object = object = std::make_shared<RemoteObject>(at, kept.version);
    return object;
  });
}

ObjectVersion RemoteFiles::version(const std::string& url) {
  return as_file([&] {
    const std::optional<Known> seen = known(url);
    if (seen && Clock::now() - seen->seen < kFresh) return seen->version;
    const ObjectVersion version = look(place(url));
    remember(url, version);
    return version;
  });
}

void RemoteFiles::will_open(std::span<const std::string> urls) {
  as_file([&] {
    Looks& looks = looks_.get();
    for (const std::string& url : urls) {
      if (!is_url(url) || known(url)) continue;
      const PlacePtr at = place(url);
      at->store().prepare(signing_time());
      const std::lock_guard lock(looks.mutex);
      if (looks.running.contains(url)) continue;
      const auto transfer = std::make_shared<VersionTransfer>(at);
      Engine::of_process().begin(transfer);
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
    const RemoteObjectPtr object = open(url);
    const ByteRange whole{0, object->version().size};
    as_file([&] { object->will_read({&whole, 1}); });
  }
  will_open(others);
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
    std::vector<ListedObject> objects = list_objects(place(prefix), prefix, current_poll());
    for (const ListedObject& object : objects) {
      if (!object.tag.empty()) remember(object.url, {object.size, object.tag});
    }
    return objects;
  });
}

void RemoteFiles::write(const std::string& url, std::string contents) {
  as_file([&] {
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

PlacePtr RemoteFiles::place(const std::string& url) {
  try {
    Store store;
    {
      const std::lock_guard lock(mutex_);
      Store& kept = stores_[bucket_of(url)];
      if (kept.store == nullptr) kept = {make_store(url, {}), kPatience};
      store = kept;
    }
    // A callback may be asked for credentials: without the lock.
    store.store->prepare(signing_time());
    return std::make_shared<Place>(std::move(store.store), url, store.patience);
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

/// The version that the store tells, which may have been asked already.
ObjectVersion RemoteFiles::look(const PlacePtr& at) {
  std::shared_ptr<VersionTransfer> running;
  {
    Looks& looks = looks_.get();
    const std::lock_guard lock(looks.mutex);
    if (auto found = looks.running.extract(at->url())) running = std::move(found.mapped());
  }
  if (running != nullptr) {
    try {
      return running->wait(current_poll());
    } catch (const ObjectError& error) {
      if (error.kind() != ObjectError::Kind::kExpired) throw;
    }
  }
  try {
    return version_of(at, current_poll());
  } catch (const ObjectError&) {
    throw;
  } catch (const std::runtime_error& problem) {  // there is no libcurl
    throw at->error(ObjectError::Kind::kUnusable, problem.what());
  }
}

void RemoteFiles::remember(const std::string& url, const ObjectVersion& version) {
  const std::lock_guard lock(mutex_);
  Known& known = known_[url];
  if (known.version != version) known.object.reset();
  known.version = version;
  known.seen = Clock::now();
}

}  // namespace torch_distinput
