// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>
#include <utility>

#include <c10/util/Exception.h>

#include "core/interrupt_poll.h"
#include "core/state_reader.h"
#include "ops/tokens/pack_iterators.h"
#include "runtime/buffer_pool.h"

namespace torch_distinput {
namespace {

/// Documents that are read again after a restore, at most.
constexpr std::int64_t kMaxDocumentsAgain = 4096;

class GreedyPackIterator final : public Iterator {
 public:
  GreedyPackIterator(IteratorPtr input, PackArguments packing, std::shared_ptr<BufferPool> pool)
      : input_(std::move(input)),
        packing_(std::move(packing)),
        pool_(std::move(pool)),
        reader_(packing_.options) {}

  std::optional<Element> next() override {
    bool saved = false;  // `before_` is the position before a document that this row began
    while (!document_) {
      if (!read(saved)) return std::nullopt;
    }
    PackedRow row(packing_, document_->scalar_type(), *pool_);
    PackedRowWriter& writer = row.writer();
    while (document_ || read(saved)) {
      if (!document_) continue;
      const std::int64_t count = std::min(writer.space(), document_->numel() - used_);
      add_piece({*document_, used_, count}, writer);
      used_ += count;
      if (used_ == document_->numel()) document_.reset();
      if (writer.is_full()) break;
    }
    writer.finish();
    return row.take({});
  }

  State save() const override {
    State state;
    state.set("input", document_ ? before_ : input_->save());
    state.set("documents", document_ ? since_ : 0).set("used", document_ ? used_ : 0);
    return state.set("read", read_);
  }

  /// Reads again the documents from that of the saved position of the input on, which are those of a row.
  void load(const State& state) override {
    const StateReader saved(state, kPackName);
    const std::int64_t documents = saved.count("documents", kMaxDocumentsAgain);
    const std::int64_t used = saved.count("used");
    const std::int64_t read = saved.count("read");
    TORCH_CHECK_VALUE(documents <= read, kPackName, ": the saved `documents` must be at most `read`, ", read,
                      ", but is ", documents, ".");
    input_->load(saved.at("input"));
    document_.reset();
    read_ = read - documents;
    InterruptPoll poll;
    for (bool begun = false; read_ < read;) {
      poll();
      TORCH_CHECK_VALUE(this->read(begun), kPackName, ": the saved position is in document ", read - 1,
                        ", but the input ended after ", read_, ".");
    }
    if (documents == 0) return;
    TORCH_CHECK_VALUE(document_ && used < document_->numel(), kPackName,
                      ": the saved position is after token ", used, " of document ", read - 1, ", which has ",
                      document_ ? document_->numel() : 0, " tokens.");
    used_ = used;
  }

 private:
  /// Reads the next document; `document_` stays empty where it has no tokens. `saved` tells whether the
  /// position is kept already, which is once a row or more often. Returns false at the end of the input.
  bool read(bool& saved) {
    if (!saved || since_ == kMaxDocumentsAgain) {
      before_ = input_->save();
      since_ = 0;
      saved = true;
    }
    const std::optional<Element> element = input_->next();
    if (!element) return false;
    at::Tensor tokens = reader_.tokens_of(*element, read_);
    ++read_;
    ++since_;
    used_ = 0;
    document_.reset();
    if (tokens.numel() > 0) document_ = std::move(tokens);
    return true;
  }

  IteratorPtr input_;
  PackArguments packing_;
  std::shared_ptr<BufferPool> pool_;
  DocumentReader reader_;
  std::optional<at::Tensor> document_;  ///< the one that is being packed
  std::int64_t used_ = 0;               ///< tokens of it that are in rows
  State before_;                        ///< the input's position before an earlier document
  std::int64_t since_ = 0;              ///< documents read after `before_`; the last one is `document_`
  std::int64_t read_ = 0;               ///< documents read
};

}  // namespace

IteratorPtr greedy_pack_iterator(IteratorPtr input, PackArguments packing, std::shared_ptr<BufferPool> pool) {
  return std::make_unique<GreedyPackIterator>(std::move(input), std::move(packing), std::move(pool));
}

}  // namespace torch_distinput
