// Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "ops/op_testing.h"
#include "support/errors.h"
#include "torch_distinput/columns.h"
#include "torch_distinput/dataset_iterator.h"
#include "torch_distinput/error.h"
#include "torch_distinput/testing.h"

namespace torch_distinput {
namespace {

using Rows = std::vector<std::int64_t>;
using FileRows = std::vector<Rows>;

/// One column `x` (int64) over the C interface. Each struct that is handed out has one of its own.
struct OneColumn {
  explicit OneColumn(Rows rows) : rows(std::move(rows)) {}

  Rows rows;
  bool is_handed_out = false;  ///< whether the stream has handed out its array
  std::array<const void*, 2> buffers{};
  std::array<const void*, 1> no_buffers{};
  ArrowArray array{};
  ArrowArray* arrays = &array;
  ArrowSchema field{};
  ArrowSchema* fields = &field;
};

template <class Struct>
OneColumn& column_of(Struct* handed_out) {
  return *static_cast<OneColumn*>(handed_out->private_data);
}

template <class Struct>
OneColumn& hand_out(Struct* out, Rows rows) {
  auto column = std::make_unique<OneColumn>(std::move(rows));
  *out = {};
  out->release = [](Struct* self) {
    const std::unique_ptr<OneColumn> released(&column_of(self));
    self->release = nullptr;
  };
  out->private_data = column.get();
  return *column.release();
}

void write_schema(ArrowSchema* out) {
  OneColumn& column = hand_out(out, {});
  column.field.format = "l";
  column.field.name = "x";
  out->format = "+s";
  out->n_children = 1;
  out->children = &column.fields;
}

void write_array(ArrowArray* out, Rows rows) {
  OneColumn& column = hand_out(out, std::move(rows));
  column.buffers = {nullptr, column.rows.data()};
  column.array.n_buffers = 2;
  column.array.buffers = column.buffers.data();
  column.array.length = out->length = static_cast<std::int64_t>(column.rows.size());
  out->n_buffers = 1;
  out->buffers = column.no_buffers.data();
  out->n_children = 1;
  out->children = &column.arrays;
}

void write_stream(ArrowArrayStream* out, Rows rows) {
  hand_out(out, std::move(rows));
  out->get_schema = [](ArrowArrayStream*, ArrowSchema* schema) {
    write_schema(schema);
    return 0;
  };
  out->get_next = [](ArrowArrayStream* self, ArrowArray* array) {
    *array = {};
    if (!std::exchange(column_of(self).is_handed_out, true)) write_array(array, column_of(self).rows);
    return 0;
  };
  out->get_last_error = [](ArrowArrayStream*) { return ""; };
}

/// Files of blocks in memory. The blocks of `unfound` (file and number) are never found, and rows below 0 are
/// bad.
class Numbers final : public BlockReader {
 public:
  using Files = std::map<std::string, FileRows>;
  using Places = std::set<std::pair<std::string, std::size_t>>;

  explicit Numbers(Files files, Places unfound = {})
      : files_(std::move(files)), unfound_(std::move(unfound)) {}

  std::string name() const override { return "numbers"; }
  std::string arguments() const override { return ""; }
  std::vector<Rows> count_rows(const std::vector<std::string>& files) const override {
    std::vector<Rows> counts;
    for (const std::string& file : files) {
      counted_.insert(file);
      for (Rows& rows = counts.emplace_back(); const Rows& block : files_.at(file))
        rows.push_back(static_cast<std::int64_t>(block.size()));
    }
    return counts;
  }
  void schema(const std::string&, ArrowSchema* out) const override { write_schema(out); }
  void read(const std::string& file, std::int64_t block, ArrowArrayStream* out) const override {
    if (on_read) on_read();
    write_good(files_.at(file).at(static_cast<std::size_t>(block)), out);
  }
  bool reads_rows() const override { return true; }
  void read_rows(const std::string& file, std::int64_t block, std::int64_t begin, std::int64_t end,
                 ArrowArrayStream* out) const override {
    const Rows& rows = files_.at(file).at(static_cast<std::size_t>(block));
    write_good({rows.begin() + begin, rows.begin() + end}, out);
  }
  std::unique_ptr<BlockCursor> open(const std::string& file) const override {
    return std::make_unique<Cursor>(*this, file);
  }

  std::function<void()> on_read;  ///< called before a block is read, in its thread

  /// The files whose blocks were counted.
  const std::set<std::string>& counted() const { return counted_; }

 private:
  class Cursor final : public BlockCursor {
   public:
    Cursor(const Numbers& reader, std::string file) : reader_(reader), file_(std::move(file)) {}

    std::optional<std::int64_t> next() override {
      const FileRows& blocks = reader_.files_.at(file_);
      if (next_ == blocks.size()) return std::nullopt;
      if (reader_.unfound_.contains({file_, next_})) throw InvalidArgumentError("no block is found");
      return static_cast<std::int64_t>(blocks[next_++].size());
    }
    void read(ArrowArrayStream* out) override {
      reader_.read(file_, static_cast<std::int64_t>(next_) - 1, out);
    }
    void read_rows(std::int64_t begin, std::int64_t end, ArrowArrayStream* out) override {
      reader_.read_rows(file_, static_cast<std::int64_t>(next_) - 1, begin, end, out);
    }

   private:
    const Numbers& reader_;
    std::string file_;
    std::size_t next_ = 0;
  };

  static void write_good(const Rows& rows, ArrowArrayStream* out) {
    for (const std::int64_t row : rows) {
      if (row < 0) throw InvalidArgumentError("a bad row");
    }
    write_stream(out, rows);
  }

  Files files_;
  Places unfound_;
  mutable std::set<std::string> counted_;
};

Dataset rows_of(const std::shared_ptr<const Numbers>& reader, bool index, bool skips = false) {
  Dataset rows = from_blocks({"a", "b"}, reader, {}, index);
  return skips ? rows.with_options({.skip = Skip{}}) : rows;
}

Rows values(const Dataset& rows) {
  Rows found;
  for (const Element& row : rows) found.push_back(row["x"].tensor().item<std::int64_t>());
  return found;
}

TEST(ColumnFiles, RowsInOrderAreThoseOfAnIndexAndNothingIsCounted) {
  const auto reader =
      std::make_shared<Numbers>(Numbers::Files{{"a", {{0}, {}, {1, 2}}}, {"b", {{}, {3, 4}}}});
  EXPECT_EQ(values(rows_of(reader, true)), (Rows{0, 1, 2, 3, 4}));
  EXPECT_EQ(reader->counted(), (std::set<std::string>{"a", "b"}));
  const auto other = std::make_shared<Numbers>(Numbers::Files{{"a", {{0}, {}, {1, 2}}}, {"b", {{}, {3, 4}}}});
  EXPECT_EQ(values(rows_of(other, false)), (Rows{0, 1, 2, 3, 4}));
  EXPECT_TRUE(other->counted().empty());
}

TEST(ColumnFiles, APositionInOrderIsFoundAgain) {
  const auto reader =
      std::make_shared<Numbers>(Numbers::Files{{"a", {{0, 1, 2}, {}, {3}}}, {"b", {{4, 5}, {6, 7, 8}, {}}}});
  testing::assert_resumable(rows_of(reader, false).batch(2));
}

TEST(ColumnFiles, BadRowsOfABlockCostThemselvesInOrderToo) {
  const auto reader = std::make_shared<Numbers>(Numbers::Files{{"a", {{0, -1, 2}, {3}}}, {"b", {{-1}, {4}}}});
  for (const bool index : {true, false})
    EXPECT_EQ(values(rows_of(reader, index, true)), (Rows{0, 2, 3, 4})) << index;
}

TEST(ColumnFiles, WhereTheNextBlockIsNotFoundTheRestOfTheFileIsLost) {
  const auto reader = std::make_shared<Numbers>(Numbers::Files{{"a", {{0, 1}, {2}}}, {"b", {{3}}}},
                                                Numbers::Places{{"a", 1}});
  EXPECT_EQ(values(rows_of(reader, false, true)), (Rows{0, 1, 3}));
  const Dataset rows = rows_of(reader, false);
  EXPECT_EQ(message_of<InvalidArgumentError>([&] { values(rows); }), "no block is found");
}

TEST(ColumnFiles, APositionBehindTheEndOfAFileIsRefused) {
  const auto longer = std::make_shared<Numbers>(Numbers::Files{{"a", {{0}, {1, 2}}}, {"b", {{3}}}});
  DatasetIterator iterator = rows_of(longer, false).iterate();
  for (int row = 0; row < 3; ++row) iterator.next();
  const auto shorter = std::make_shared<Numbers>(Numbers::Files{{"a", {{0}, {1}}}, {"b", {{3}}}});
  DatasetIterator other = rows_of(shorter, false).iterate();
  EXPECT_EQ(message_of<c10::ValueError>([&] { other.load(iterator.save()); }),
            "numbers: the saved position is after row 3 of a file, but the file has 2 rows.");
}

/// Two files of `blocks` blocks each, of 1 to 9 rows; the values count the rows.
std::shared_ptr<Numbers> counted_rows(std::size_t blocks) {
  Numbers::Files files;
  std::int64_t row = 0;
  for (const char* const name : {"a", "b"}) {
    for (std::size_t block = 0; block < blocks; ++block) {
      Rows& rows = files[name].emplace_back();
      for (std::size_t i = 0; i < 1 + (block * 5) % 9; ++i) rows.push_back(row++);
    }
  }
  return std::make_shared<Numbers>(std::move(files));
}

/// The values in the batches of `plan` at `positions`, made together or one by one.
std::vector<Rows> batches_at(const Plan& plan, const Rows& positions, bool together) {
  std::vector<Element> batches;
  Rows scratch = positions;
  if (together) batches = plan.fetch(scratch);
  for (std::int64_t& position : together ? std::span<std::int64_t>() : std::span(scratch))
    batches.push_back(std::move(plan.fetch({&position, 1}).front()));
  std::vector<Rows> found;
  for (const Element& batch : batches) {
    const at::Tensor rows = batch["x"].tensor();
    found.emplace_back(rows.data_ptr<std::int64_t>(), rows.data_ptr<std::int64_t>() + rows.numel());
  }
  return found;
}

TEST(ColumnFiles, BatchesMadeTogetherAreThoseMadeOneByOne) {
  // With few blocks, all are held at a time; with many, those of a full shuffle are too many.
  for (const std::size_t blocks : {1, 3, 40}) {
    const Dataset rows = rows_of(counted_rows(blocks), true);
    for (const Dataset& order : {rows, rows.shuffle({.seed = 3}), rows.shuffle({.seed = 5, .blocks = 2}),
                                 rows.shuffle({.seed = 5, .blocks = 2}).skip(3).prefetch(2)}) {
      const Dataset batches = order.batch(7);
      const PlanPtr plan = op_testing::plan_of(batches);
      Rows positions(static_cast<std::size_t>(plan->size()));
      std::iota(positions.begin(), positions.end(), std::int64_t{0});
      const std::vector<Rows> expected = batches_at(*plan, positions, /*together=*/false);
      EXPECT_EQ(batches_at(*plan, positions, /*together=*/true), expected);
      std::set<std::int64_t> different;
      for (const Rows& batch : expected) different.insert(batch.begin(), batch.end());
      std::size_t count = 0;
      for (const Rows& batch : expected) count += batch.size();
      EXPECT_EQ(different.size(), count);
    }
  }
}

TEST(ColumnFiles, TheBlocksOfABatchAreReadSideBySide) {
  const auto reader = counted_rows(30);
  std::mutex mutex;
  std::condition_variable changed;
  int reading = 0, most = 0;
  bool alone = false;
  reader->on_read = [&] {
    std::unique_lock lock(mutex);
    most = std::max(most, ++reading);
    changed.notify_all();
    // Once two have met, or one has waited in vain, none waits any more.
    if (!changed.wait_for(lock, std::chrono::seconds(10), [&] { return most >= 2 || alone; })) alone = true;
    --reading;
  };
  const Dataset rows = rows_of(reader, true).with_options({.num_threads = 1});
  Rows first{0};
  op_testing::plan_of(rows.shuffle({.seed = 1, .blocks = 2}).batch(50))->fetch(first);
  EXPECT_EQ(most, 2);
}

TEST(ColumnFiles, WhatFailsInAnotherThreadIsReadAgainByTheCaller) {
  const auto reader = counted_rows(30);
  const auto plan = [](const std::shared_ptr<Numbers>& rows) {
    const Dataset dataset = rows_of(rows, true).with_options({.num_threads = 1});
    return op_testing::plan_of(dataset.shuffle({.seed = 1, .blocks = 2}).batch(50));
  };
  std::mutex mutex;
  std::condition_variable changed;
  bool failed = false;
  reader->on_read = [&, caller = std::this_thread::get_id()] {
    std::unique_lock lock(mutex);
    if (std::this_thread::get_id() == caller) {
      EXPECT_TRUE(changed.wait_for(lock, std::chrono::seconds(10), [&] { return failed; }));
      failed = true;  // is waited for once
      return;
    }
    failed = true;
    changed.notify_all();
    throw InvalidArgumentError("another thread");
  };
  EXPECT_EQ(batches_at(*plan(reader), {0}, /*together=*/true),
            batches_at(*plan(counted_rows(30)), {0}, /*together=*/true));
}

TEST(ColumnFiles, ABadBlockOfABatchIsItsErrorWhicheverThreadReadsIt) {
  Numbers::Files files;
  for (std::int64_t block = 0; block < 40; ++block) files["a"].push_back({block == 17 ? -1 : block});
  files["b"] = {{40}};
  const Dataset rows = rows_of(std::make_shared<Numbers>(files), true).with_options({.num_threads = 3});
  const PlanPtr plan = op_testing::plan_of(rows.shuffle({.seed = 1, .blocks = 2}).batch(41));
  for (int tries = 0; tries < 50; ++tries) {
    Rows first{0};
    EXPECT_TRUE(has(message_of<InvalidArgumentError>([&] { plan->fetch(first); }), "a bad row"));
  }
}

}  // namespace
}  // namespace torch_distinput
