// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "remote/finished.h"
#include "remote/place.h"
#include "remote/transfer.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {

/// Which version of an object is read.
struct ObjectVersion {
  std::uint64_t size = 0;  ///< bytes
  std::string tag = {};    ///< as `ObjectStore::tag_of`; "" where the server tells none
  bool operator==(const ObjectVersion&) const = default;
};

/// What is wrong where another version of an object was found than was wanted.
std::string replaced_text(const ObjectVersion& wanted, const ObjectVersion& found);

/// Gets bytes of one version of an object into memory of its own. A repetition goes on at the byte that was
/// reached; an answer that is not of this version is an error.
class RangeTransfer final : public Transfer, public std::enable_shared_from_this<RangeTransfer> {
 public:
  /// Is told that a transfer is over, on the engine's thread, which it must not keep waiting.
  using Arrival = std::function<void(const std::shared_ptr<RangeTransfer>&)>;

  /// REQUIRES: `range` is not empty and lies in the object.
  RangeTransfer(PlacePtr place, ObjectVersion version, ByteRange range, Block memory, Arrival arrival = {});

  const ByteRange& range() const noexcept { return range_; }
  /// Waits until it is over and returns its bytes, which live as long as this. Throws ObjectError.
  std::span<const char> wait(const Poll& poll);
  /// REQUIRES: it is over, and has not failed.
  std::span<const char> bytes() const {
    return {static_cast<const char*>(memory_.data()), static_cast<std::size_t>(range_.size)};
  }
  bool is_over() const { return finished_.is_over(); }
  bool has_failed() const { return finished_.has_failed(); }

  std::string origin() const override { return place_->origin(); }
  Nanos patience() const override { return place_->patience(); }
  bool goes_on() const override { return true; }
  HttpRequest request(SigningTime now) override;
  Verdict judge(const HttpHead& head) override;
  bool take(std::span<const char> bytes) override;
  bool is_whole(bool) const override { return received_ == range_.size; }
  Refusal refuse(const HttpHead& head, std::string_view body, int tries) override;
  ObjectError give_up(const std::string& problem, int tries, double seconds) override;
  void finish(std::exception_ptr error) override;

 private:
  Verdict judge_whole(const HttpHead& head);
  void check_version(const HttpHead& head, std::int64_t size) const;

  PlacePtr place_;
  ObjectVersion version_;
  ByteRange range_;
  Block memory_;
  Arrival arrival_;
  std::uint64_t received_ = 0;
  std::uint64_t passed_over_ = 0;  ///< bytes of the body before those that are wanted
  bool ends_early_ = false;        ///< the body has more bytes than are wanted
  Finished finished_;
};

}  // namespace torch_distinput
