// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include "remote/listing.h"

#include <iterator>
#include <set>
#include <stdexcept>

#include "remote/engine.h"
#include "remote/remote_object.h"
#include "remote/text_transfer.h"

namespace torch_distinput {
namespace {

/// Some GiB of names. A server may make up pages without end.
constexpr std::size_t kMostObjects = 20'000'000;

ListPage list_page(const PlacePtr& place, const std::string& prefix, const std::string& continuation,
                   const Poll& poll) {
  const ObjectStore& store = place->store();
  store.prepare(std::chrono::system_clock::now());
  return with_fresh_credentials(store, [&] {
    const auto transfer = std::make_shared<TextTransfer>(
        place,
        [&store, prefix, continuation](SigningTime now) { return store.list(prefix, continuation, now); });
    Engine::of_process().begin(transfer);
    transfer->wait(poll);
    return store.read_list(prefix, transfer->head(), transfer->body());
  });
}

}  // namespace

std::vector<ListedObject> list_objects(const PlacePtr& place, const std::string& prefix, const Poll& poll) {
  std::vector<ListedObject> objects;
  std::set<std::string> seen;
  std::string continuation;
  try {
    do {
      ListPage page = list_page(place, prefix, continuation, poll);
      std::move(page.objects.begin(), page.objects.end(), std::back_inserter(objects));
      if (objects.size() > kMostObjects)
        throw place->error(ObjectError::Kind::kRefused,
                           "its list has more than " + std::to_string(kMostObjects) + " objects");
      continuation = std::move(page.continuation);
      if (!continuation.empty() && !seen.insert(continuation).second)
        throw place->error(ObjectError::Kind::kRefused, "its list of objects does not come to an end");
    } while (!continuation.empty());
  } catch (const ObjectError&) {
    throw;
  } catch (const std::invalid_argument& problem) {
    throw place->error(ObjectError::Kind::kUnusable, problem.what());
  } catch (const std::runtime_error& problem) {
    throw place->error(ObjectError::Kind::kRefused, problem.what());
  }
  return objects;
}

}  // namespace torch_distinput
