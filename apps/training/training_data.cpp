// SPDX-License-Identifier: Apache-2.0
#include "training/training_data.hpp"

#include "cli/options.hpp"
#include "datasets/divided_reader.hpp"
#include "datasets/split.hpp"

#include <msstream/base/detail/require.hpp>
#include <msstream/data/data_error.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <new>
#include <thread>
#include <utility>

namespace msstream::training {

namespace {

using datasets::DividedReader;
using datasets::Kept;

/// The most threads that parse the rows which are counted. Each has what it parses in memory, which
/// of Parquet may be many rows, and one at a time adds to the statistics.
constexpr std::size_t kMostScanThreads = 16;

datasets::DividedRows loaded(data::Reader& reader,
                             std::string const& origin,
                             TrainingDataOptions const& options) {
  try {
    return datasets::divide(datasets::load_rows(reader), options.holdout);
  } catch (std::bad_alloc const&) {
    throw data::DataError(
        fmt::format("{}: the rows do not fit into memory; {}", origin, options.advice));
  }
}

/// Throws UsageError if all rows are held out.
void require_training_rows(std::int64_t training_rows,
                           std::int64_t held_out_rows,
                           std::int64_t holdout) {
  if (training_rows == 0) {
    throw cli::UsageError(
        fmt::format("{} rows leave none to train on with --holdout {}", held_out_rows, holdout));
  }
}

/// Returns a function that opens one part of so many rows, and checks their labels when they are
/// read.
OpenRows part_of(OpenRows const& open, std::int64_t rows_of_all, std::int64_t holdout, Kept kept) {
  return [open, rows_of_all, holdout, kept]() -> std::unique_ptr<data::Reader> {
    auto rows = open();
    auto labels = datasets::click_columns(rows->schema()).labels;
    datasets::RowWatch watch{
        .rows = [labels = std::move(labels)](
                    data::Chunk const& chunk,
                    std::string const& file) { require_labels(chunk, labels, file); },
        .count = rows_of_all};
    return std::make_unique<DividedReader>(std::move(rows), holdout, kept, std::move(watch));
  };
}

/// Reads all rows, fits the transforms to those to train on, and returns the counts.
ClickCounts scan(OpenRows const& open,
                 StreamedDataOptions const& options,
                 data::Transforms const& transforms) {
  auto rows = open();
  auto const columns = datasets::click_columns(rows->schema());
  ClickScan found(rows->schema(), options.data.buckets == 0);
  DividedReader training(std::move(rows),
                         options.data.holdout,
                         Kept::training,
                         {.rows =
                              [&](data::Chunk const& chunk, std::string const& file) {
                                require_labels(chunk, columns.labels, file);
                                found.add(chunk);
                              },
                          .place = options.at_place});
  auto const threads =
      options.threads != 0
          ? options.threads
          : std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kMostScanThreads);
  transforms.fit(training, {.threads = static_cast<int>(threads)});
  return found.counts();
}

}  // namespace

TrainingData load_training_data(data::Reader& reader,
                                std::string origin,
                                TrainingDataOptions const& options) {
  auto [training, held_out] = loaded(reader, origin, options);
  auto const training_rows = training.rows();
  require_training_rows(training_rows, held_out.rows(), options.holdout);
  data::Transforms const transforms(training.schema());
  transforms.fit(*training.reader());

  auto columns = datasets::click_columns(training.schema());
  ClickScan found(training.schema(), options.buckets == 0);
  for (auto const* part : {&training, &held_out}) {
    for (auto const& chunk : part->chunks()) {
      require_labels(chunk, columns.labels, origin);
      found.add(chunk);
    }
  }
  auto counts = found.counts();
  if (options.buckets != 0) {
    counts.table_rows.assign(columns.categorical.size(), options.buckets);
  }
  return {std::move(training),
          std::move(held_out),
          training_rows,
          transforms,
          std::move(columns),
          std::move(counts.table_rows),
          std::move(counts.most_keys),
          std::move(origin)};
}

TrainingData stream_training_data(OpenRows const& open,
                                  std::string origin,
                                  StreamedDataOptions const& options) {
  auto const holdout = options.data.holdout;
  datasets::check_holdout(holdout);
  auto const schema = open()->schema();
  require(std::ranges::any_of(schema.columns(),
                              [](auto const& column) { return !column.transforms.empty(); }),
          "{}: no column has transforms, to which a pass over the rows could fit them",
          origin);
  data::Transforms const transforms(schema);
  auto columns = datasets::click_columns(schema);
  bool const is_known =
      options.known && options.known->most_keys.size() == columns.categorical.size() &&
      (options.data.buckets != 0 || options.known->table_rows.size() == columns.categorical.size());
  auto const counts = is_known ? *options.known : scan(open, options, transforms);
  auto const held_out = holdout == 0 ? 0 : counts.rows / holdout;
  require_training_rows(counts.rows - held_out, held_out, holdout);
  return {TrainingRows(counts.rows - held_out, part_of(open, counts.rows, holdout, Kept::training)),
          TrainingRows(held_out, part_of(open, counts.rows, holdout, Kept::held_out)),
          counts.rows - held_out,
          transforms,
          std::move(columns),
          options.data.buckets != 0 ? std::vector(counts.most_keys.size(), options.data.buckets)
                                    : counts.table_rows,
          counts.most_keys,
          std::move(origin),
          options.shuffle_rows,
          counts};
}

}  // namespace msstream::training
