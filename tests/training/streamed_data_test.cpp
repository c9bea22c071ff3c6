// SPDX-License-Identifier: Apache-2.0
#include "base/message_of.hpp"
#include "base/temporary_folder.hpp"
#include "cli/options.hpp"
#include "training/epoch_plan.hpp"
#include "training/rank_options.hpp"
#include "training/streaming_options.hpp"
#include "training/training_data.hpp"

#include <msstream/checkpoint/safetensors.hpp>
#include <msstream/data/data_error.hpp>
#include <msstream/data/loader.hpp>

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace msstream::training {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

constexpr std::int64_t kBatch = 16;

/// The options of a program that plan_of() reads.
struct Program {
  std::int64_t batch = kBatch;
  std::int64_t epochs = 2;
  std::uint64_t seed = 3;
  int reader_threads = 2;
};

/// Returns a line of Criteo's data that differs from row to row, with or without a list of words in
/// its field C8.
std::string line(std::int64_t row, bool has_lists = false) {
  std::string text = row % 3 == 0 ? "1" : "0";
  for (int i = 0; i < 13; ++i) {
    text += fmt::format("\t{}", i == 2 ? row * 7 % 101 : i);
  }
  for (int i = 1; i <= 26; ++i) {
    bool const is_list = has_lists && i == 8;
    text += is_list  ? row % 4 == 0   ? "\t"
                       : row % 4 == 1 ? "\ta"
                                      : fmt::format("\ta|b{}|c", row)
             : i == 7 ? fmt::format("\tword{}", row % 40)
                     : fmt::format("\tw{}", i);
  }
  return text + "\n";
}

std::string lines(std::int64_t first, std::int64_t end, bool has_lists = false) {
  std::string text;
  for (auto row = first; row < end; ++row) {
    text += line(row, has_lists);
  }
  return text;
}

/// A batch in host memory, to be compared.
struct Seen {
  std::vector<std::vector<float>> floats;
  std::vector<std::vector<std::int64_t>> ints;
  friend bool operator==(Seen const&, Seen const&) = default;
};

Seen seen(data::Batch const& batch) {
  Seen all;
  auto const copy = [](auto const& values) { return std::vector(values.begin(), values.end()); };
  for (auto const& column : batch.schema().columns()) {
    if (column.is_float()) {
      all.floats.push_back(copy(batch.floats(column.name)));
    } else {
      all.ints.push_back(copy(batch.ints(column.name)));
      if (column.is_jagged()) {
        all.ints.push_back(copy(batch.offsets(column.name)));
      }
    }
  }
  return all;
}

std::vector<Seen> all_of(data::Loader& loader) {
  std::vector<Seen> batches;
  while (auto const batch = loader.next()) {
    batches.push_back(seen(*batch));
  }
  return batches;
}

class StreamedData : public ::testing::Test {
 protected:
  /// Opens the files, whose tasks have few rows.
  [[nodiscard]] OpenRows open(std::vector<std::filesystem::path> paths, bool has_lists = false) {
    datasets::ReaderOptions options{.chunk_bytes = 1'000};
    if (has_lists) {
      options.lists.assign(26, {data::Transform::first(2), data::Transform::hash({.buckets = 50})});
    }
    return [this, paths = std::move(paths), options] {
      ++opened_;
      return datasets::open_data(paths, options);
    };
  }
  std::filesystem::path write(std::string_view name,
                              std::int64_t first,
                              std::int64_t end,
                              bool has_lists = false) const {
    return folder_.write(name, lines(first, end, has_lists));
  }
  [[nodiscard]] static TrainingData streamed(OpenRows const& open,
                                             StreamedDataOptions options = {}) {
    options.threads = 2;
    return stream_training_data(open, "rows", options);
  }
  [[nodiscard]] static TrainingData loaded(OpenRows const& open) {
    auto const reader = open();
    return load_training_data(*reader, "rows", {});
  }
  /// Returns the batches of the training rows, then those of the rows that are held out.
  [[nodiscard]] static std::vector<Seen> batches_of(TrainingData& data,
                                                    Program const& program = {}) {
    data::Loader held_out(data.held_out.reader(),
                          {.batch_size = 10, .transforms = data.transforms});
    auto last = all_of(held_out);
    data::Loader training(data.training.take(),
                          plan_of(program, data, data::LastBatch::dropped).loader);
    auto all = all_of(training);
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }

  TemporaryFolder folder_;
  std::atomic<int> opened_ = 0;
};

TEST_F(StreamedData, has_what_loaded_data_has) {
  for (bool const has_lists : {false, true}) {
    auto const rows =
        open({write("a", 0, 150, has_lists), write("b", 150, 203, has_lists)}, has_lists);
    auto memory = loaded(rows);
    auto files = streamed(rows);
    EXPECT_FALSE(memory.training.is_streamed());
    EXPECT_TRUE(files.training.is_streamed());
    EXPECT_TRUE(files.held_out.is_streamed());
    EXPECT_EQ(files.training_rows, 163);
    EXPECT_EQ(files.training_rows, memory.training_rows);
    EXPECT_EQ(files.training.rows(), memory.training.rows());
    EXPECT_EQ(files.held_out.rows(), memory.held_out.rows());
    EXPECT_EQ(files.rows(), 203);
    EXPECT_EQ(files.most_keys, memory.most_keys);
    EXPECT_EQ(files.most_keys[7], has_lists ? 3 : 1);
    EXPECT_EQ(files.table_rows, memory.table_rows);
    EXPECT_EQ(files.table_rows[6], 40 * 32);
    EXPECT_EQ(files.columns.categorical, memory.columns.categorical);
    memory.shuffle_rows = 0;
    EXPECT_EQ(batches_of(files, {.epochs = 1}), batches_of(memory, {.epochs = 1}))
        << "in the order of the files";
  }
}

TEST_F(StreamedData, of_one_window_is_shuffled_like_loaded_data) {
  auto const rows = open({write("a", 0, 203)});
  auto files = streamed(rows, {.data = {}, .shuffle_rows = 1'000});
  auto memory = loaded(rows);
  auto const expected = batches_of(memory);
  EXPECT_EQ(batches_of(files), expected);
  auto windows = streamed(rows, {.data = {}, .shuffle_rows = 48});
  auto const in_windows = batches_of(windows);
  EXPECT_NE(in_windows, expected);
  EXPECT_EQ(batches_of(windows, {.reader_threads = 7}), in_windows);
  EXPECT_NE(batches_of(windows, {.seed = 4}), in_windows);
}

/// Passes rows on, and counts those that have been read and have not been trained on.
class WatchedReader final : public data::Reader {
 public:
  struct Counts {
    std::atomic<std::int64_t> read = 0;
    std::atomic<std::int64_t> trained = 0;
    std::atomic<std::int64_t> most_ahead = 0;
  };
  WatchedReader(std::unique_ptr<data::Reader> rows, std::shared_ptr<Counts> counts)
      : rows_(std::move(rows)), counts_(std::move(counts)) {}

  [[nodiscard]] data::Schema const& schema() const override { return rows_->schema(); }
  bool next(data::Chunk& chunk) override {
    bool const has_rows = rows_->next(chunk);
    counts_->read += chunk.rows();
    auto const ahead = counts_->read - counts_->trained;
    counts_->most_ahead = std::max<std::int64_t>(counts_->most_ahead, ahead);
    return has_rows;
  }
  [[nodiscard]] Position position() const override { return rows_->position(); }
  void seek(Position const& position) override { rows_->seek(position); }

 private:
  std::unique_ptr<data::Reader> rows_;
  std::shared_ptr<Counts> counts_;
};

TEST_F(StreamedData, has_a_few_windows_in_memory_and_no_more) {
  constexpr std::int64_t kRows = 6'000;
  constexpr std::int64_t kWindow = 64;
  auto const path = write("a", 0, kRows);
  auto const counts = std::make_shared<WatchedReader::Counts>();
  auto const rows = open({path});
  auto const watched = [&, rows]() -> std::unique_ptr<data::Reader> {
    return std::make_unique<WatchedReader>(rows(), counts);
  };
  auto data =
      stream_training_data(watched, "rows", {.data = {.holdout = 0}, .shuffle_rows = kWindow});
  ASSERT_EQ(counts->read, kRows) << "one pass counts the rows";
  counts->read = 0;
  counts->most_ahead = 0;
  auto const options = plan_of(Program{.epochs = 1}, data, data::LastBatch::partial).loader;
  data::Loader loader(data.training.take(), options);
  while (auto const batch = loader.next()) {
    counts->trained += batch->rows();
  }
  EXPECT_EQ(counts->read, kRows);
  // Two windows, batches that are made ahead, and tasks of at most 10 rows: those that threads
  // parse, and those that wait for an earlier one.
  auto const ahead = (options.batches_ahead + 2) * kBatch + (3 * options.threads + 2) * 10;
  EXPECT_LE(counts->most_ahead, 2 * kWindow + ahead);
  EXPECT_GE(counts->most_ahead, kWindow);
}

TEST_F(StreamedData, goes_on_in_the_middle_without_reading_what_is_behind_it) {
  auto const path = write("a", 0, 1'000);
  auto const rows = open({path});
  for (std::int64_t const window : {0, 64}) {
    auto first = streamed(rows, {.data = {}, .shuffle_rows = window});
    auto const options = plan_of(Program{}, first, data::LastBatch::dropped).loader;
    std::vector<Seen> expected;
    data::LoaderPosition position;
    {
      data::Loader loader(first.training.take(), options);
      for (int batch = 0; batch < 39; ++batch) {
        ASSERT_TRUE(loader.next());
      }
      position = loader.position();
      expected = all_of(loader);
    }
    ASSERT_EQ(expected.size(), 61U);

    auto const counts = std::make_shared<WatchedReader::Counts>();
    auto const before = opened_.load();
    auto second = streamed(
        [&, rows]() -> std::unique_ptr<data::Reader> {
          return std::make_unique<WatchedReader>(rows(), counts);
        },
        {.data = {}, .shuffle_rows = window, .known = first.counts});
    EXPECT_EQ(counts->read, 0) << "the counts are known";
    EXPECT_EQ(opened_ - before, 1);
    EXPECT_EQ(second.training_rows, first.training_rows);
    EXPECT_EQ(second.table_rows, first.table_rows);
    // A checkpoint has the fitted transforms, here those of the first run.
    auto continued = plan_of(Program{}, first, data::LastBatch::dropped).loader;
    continued.start = data::LoaderPosition::parse(to_string(position));
    auto third = streamed(rows, {.data = {}, .shuffle_rows = window, .known = first.counts});
    data::Loader loader(third.training.take(), continued);
    EXPECT_EQ(all_of(loader), expected);

    continued.shuffle_rows += 1'000;
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { data::Loader(first.training.reader(), continued); }),
                HasSubstr("windows of"));
    continued.shuffle_rows -= 1'000;
    EXPECT_THAT(message_of<std::invalid_argument>(
                    [&] { data::Loader(first.held_out.reader(), continued); }),
                HasSubstr("only every 5-th row"));
  }
}

TEST_F(StreamedData, a_file_that_is_damaged_meanwhile_ends_the_training_by_its_line) {
  auto const path = write("a", 0, 1'000);
  auto data = streamed(open({path}), {.data = {}, .shuffle_rows = 64});
  folder_.write("a", lines(0, 600) + "0\tx\n" + lines(600, 1'000));
  data::Loader loader(data.training.take(),
                      plan_of(Program{}, data, data::LastBatch::dropped).loader);
  std::int64_t batches = 0;
  auto const message = message_of<data::DataError>([&] {
    while (loader.next()) {
      ++batches;
    }
  });
  EXPECT_EQ(batches, 480 / 64 * 4) << "those of the whole windows in front of it";
  EXPECT_THAT(message, AllOf(HasSubstr(path.string() + ":601:"), HasSubstr("40")));
}

TEST_F(StreamedData, files_with_other_rows_than_were_counted_end_the_epoch_by_an_error) {
  auto const path = write("a", 0, 200);
  auto data = streamed(open({path}), {.data = {}, .shuffle_rows = 64});
  for (std::int64_t const rows : {150, 210}) {
    write("a", 0, rows);
    data::Loader training(data.training.reader(),
                          plan_of(Program{}, data, data::LastBatch::dropped).loader);
    EXPECT_THAT(
        message_of<data::DataError>([&] { (void)all_of(training); }),
        HasSubstr(fmt::format("{}: the data has {} rows, and had 200", path.string(), rows)));
    data::Loader held_out(data.held_out.reader(), {.transforms = data.transforms});
    EXPECT_THROW((void)all_of(held_out), data::DataError);
  }
}

TEST_F(StreamedData, errors_of_the_pass_over_the_rows_name_their_line) {
  auto const bad = folder_.write("bad", lines(0, 300) + line(7).substr(1) + lines(300, 900));
  auto const rows = open({write("a", 0, 100), bad});
  EXPECT_THAT(message_of<data::DataError>([&] { (void)streamed(rows); }),
              HasSubstr(bad.string() + ":301: column 1 (Label): expected 0 or 1"));
  std::filesystem::remove(bad);
  EXPECT_THAT(message_of<data::DataError>([&] { (void)streamed(rows); }), HasSubstr(bad.string()));
  auto const empty = folder_.write("empty", "");
  EXPECT_THAT(message_of<data::DataError>([&] { (void)streamed(open({empty})); }),
              HasSubstr("empty: expected rows, found an empty file"));
}

/// Gives rows whose labels are not checked by their conversion.
class LabelReader final : public data::Reader {
 public:
  [[nodiscard]] data::Schema const& schema() const override { return schema_; }
  bool next(data::Chunk& chunk) override {
    if (row_ == 4) {
      return false;
    }
    chunk.ints("C1").push_back(row_);
    chunk.floats("continuous").push_back(1);
    chunk.floats("Label").push_back(++row_ == 4 ? 0.5F : 1.0F);
    return true;
  }
  [[nodiscard]] Position position() const override { return {.offset = row_}; }
  void seek(Position const& position) override { row_ = position.offset; }
  [[nodiscard]] std::string file_name(std::int64_t) const override { return "clicks"; }

 private:
  data::Schema schema_{
      {{"C1", data::ColumnType::int64},
       {"continuous", data::ColumnType::float32, 1, {data::Transform::normalize()}},
       {"Label"}}};
  std::int64_t row_ = 0;
};

TEST_F(StreamedData, labels_are_checked_in_each_pass) {
  auto const rows = []() -> std::unique_ptr<data::Reader> {
    return std::make_unique<LabelReader>();
  };
  auto const expected = HasSubstr("clicks: column 'Label': expected 0 or 1, found 0.5");
  EXPECT_THAT(message_of<data::DataError>([&] { (void)streamed(rows); }), expected);
  ClickCounts const known{.rows = 4, .most_keys = {1}, .table_rows = {1'024}};
  auto data = streamed(rows, {.data = {}, .shuffle_rows = 0, .known = known});
  auto const reader = data.training.reader();
  EXPECT_THAT(message_of<data::DataError>([&] { (void)datasets::load_rows(*reader); }), expected);
}

TEST_F(StreamedData, of_fewer_rows_than_a_batch_has_no_batch_or_a_smaller_one) {
  auto data = streamed(open({write("a", 0, 5)}), {.data = {}, .shuffle_rows = 64});
  EXPECT_EQ(data.training_rows, 4);
  auto const plan = plan_of(Program{}, data, data::LastBatch::dropped);
  EXPECT_EQ(plan.batch_count(), 0);
  data::Loader smaller(data.training.reader(),
                       plan_of(Program{}, data, data::LastBatch::partial).loader);
  EXPECT_EQ(all_of(smaller).size(), 2U) << "one an epoch";
}

TEST_F(StreamedData, counts_are_read_from_a_checkpoint) {
  ClickCounts const counts{.rows = 12, .most_keys = {1, 3}, .table_rows = {1'024, 2'048}};
  auto const write_text = [&](char const* name, checkpoint::Metadata const& metadata) {
    auto const path = (folder_ / name).string();
    checkpoint::save_safetensors(path, {}, metadata);
    return path;
  };
  auto const saved = write_text("model", {{"counts", to_string(counts)}});
  auto const read = counts_in_checkpoint(saved);
  ASSERT_TRUE(read);
  EXPECT_EQ(read->rows, counts.rows);
  EXPECT_EQ(read->most_keys, counts.most_keys);
  EXPECT_EQ(read->table_rows, counts.table_rows);
  EXPECT_FALSE(counts_in_checkpoint(write_text("loaded", {{"rows", "12"}})));
  auto const other = write_text("other", {{"counts", "{\"rows\": \"many\"}"}});
  EXPECT_THAT(message_of<std::invalid_argument>([&] { (void)counts_in_checkpoint(other); }),
              HasSubstr(other + ": metadata 'counts'"));
}

TEST_F(StreamedData, progress_is_that_of_the_bytes_of_text) {
  auto const text = folder_.write("text", std::string(1'000, 'x'));
  auto const zipped = folder_.write("zipped", "\x1f\x8b" + std::string(298, 'x'));
  FileProgress const progress({text, zipped, text});
  EXPECT_EQ(progress.bytes(), 2'300);
  EXPECT_EQ(progress.bytes_read({}), 0);
  EXPECT_EQ(progress.bytes_read({.file = 0, .offset = 400}), 400);
  EXPECT_EQ(progress.bytes_read({.file = 0, .offset = 5'000}), 1'000);
  EXPECT_EQ(progress.bytes_read({.file = 1, .offset = 5'000}), 1'000);
  EXPECT_EQ(progress.bytes_read({.file = 2, .offset = 1}), 1'301);
  EXPECT_EQ(progress.bytes_read({.file = 3}), 2'300);
}

TEST_F(StreamedData, files_larger_than_the_memory_are_refused_before_they_are_loaded) {
  auto const path = folder_.write("a", std::string(3'000'000, 'x'));
  EXPECT_NO_THROW(require_fit({path, path}, 1, 6'000'000));
  EXPECT_THAT(message_of<cli::UsageError>([&] {
                require_fit({path, path}, 1, 5'999'999);
              }),
              AllOf(HasSubstr("the files have 6 MB, the memory of this machine 5 MB"),
                    HasSubstr("--stream")));
  EXPECT_NO_THROW(require_fit({path}, 9, 27'000'000));
  EXPECT_THAT(message_of<cli::UsageError>([&] { require_fit({path}, 9, 26'999'999); }),
              HasSubstr("the files have 3 MB, of which the parts of a batch need 9 copies, the "
                        "memory of this machine 26 MB"));
}

TEST(CopiesOfRows, are_one_for_whole_batches_and_otherwise_one_more_than_the_parts_of_a_process) {
  EXPECT_EQ((RankOptions{.ranks = 1}.copies_of_rows()), 1);
  EXPECT_EQ((RankOptions{.ranks = 4}.copies_of_rows()), 5);
  EXPECT_EQ((RankOptions{.ranks = 2, .parallel = Parallel::half_batches}.copies_of_rows()), 5);
  for (int const ranks : {1, 4}) {
    RankOptions const any{.ranks = ranks, .reproducible = Reproducible::any_rank_count};
    EXPECT_EQ(any.copies_of_rows(), 9);
  }
}

}  // namespace
}  // namespace msstream::training
