// SPDX-License-Identifier: Apache-2.0
#include "data/loader_settings.hpp"

#include <msstream/base/detail/require.hpp>

#include <fmt/core.h>

#include <algorithm>
#include <stdexcept>
#include <string>

namespace msstream::data::detail {

namespace {

/// Returns the part of the rows that the batches of a rank are made of, for its positions.
std::string part_of(LoaderOptions const& options, Reader const& reader) {
  auto part = reader.part();
  if (!options.group.empty()) {
    part += fmt::format(", groups of column '{}' in batches of {} on each of {} ranks",
                        options.group,
                        options.batch_size,
                        options.ranks);
  }
  if (options.share == RankShare::tasks) {
    part += fmt::format(", tasks of rank {} of {}", options.rank, options.ranks);
  }
  return part;
}

std::string described(Schema const& schema) {
  std::string text;
  for (auto const& column : schema.columns()) {
    text += fmt::format("{}'{}' of type {} and width {}",
                        text.empty() ? "" : ", ",
                        column.name,
                        to_string(column.type),
                        column.width);
    for (auto const& step : column.transforms) {
      text += fmt::format(", {}", to_string(step));
    }
  }
  return text;
}

/// Throws std::invalid_argument if a position is of other files than the reader has.
void require_source(Reader::Source const& saved, Reader::Source const& given) {
  if (saved.files == 0 || given.files == 0 || saved == given) {
    return;
  }
  bool const same_size = saved.files == given.files && saved.bytes == given.bytes;
  throw std::invalid_argument(fmt::format(
      "loader: the position is of {} files of {} bytes in all, the reader has {} of {} bytes{}; "
      "expected the same files in the same order, by their names without folders and their sizes, "
      "read with the same options",
      saved.files,
      saved.bytes,
      given.files,
      given.bytes,
      same_size ? ", of other names, in another order, or read with other options" : ""));
}

}  // namespace

LoaderOptions checked_options(LoaderOptions options) {
  constexpr std::int64_t most_rows = std::int64_t{1} << 31U;
  require(options.batch_size >= 1 && options.batch_size <= most_rows,
          "loader: batch_size is {}; expected 1 to 2^31",
          options.batch_size);
  require(options.epochs >= 0, "loader: epochs is {}; expected at least 0", options.epochs);
  require(options.shuffle_rows >= 0,
          "loader: shuffle_rows is {}; expected at least 0",
          options.shuffle_rows);
  require(options.ranks >= 1 && options.rank >= 0 && options.rank < options.ranks,
          "loader: rank {} of {} ranks; expected at least one rank, and a rank from 0",
          options.rank,
          options.ranks);
  require(options.threads >= 1, "loader: threads is {}; expected at least 1", options.threads);
  require(options.batches_ahead >= 1,
          "loader: batches_ahead is {}; expected at least 1",
          options.batches_ahead);
  require(options.unfinished_batches >= 1,
          "loader: unfinished_batches is {}; expected at least 1",
          options.unfinished_batches);
  bool const deals = options.share == RankShare::tasks;
  require(
      !deals || options.last_batch != LastBatch::dropped,
      "loader: LastBatch::dropped with RankShare::tasks; expected partial or padded batches, as "
      "ranks have different numbers of rows");
  require(!deals || options.group.empty(),
          "loader: the group '{}' with RankShare::tasks, which may divide a group; expected "
          "RankShare::batches",
          options.group);
  return options;
}

std::optional<std::size_t> group_of(LoaderOptions const& options, Schema const& schema) {
  if (options.group.empty()) {
    return std::nullopt;
  }
  auto const index = schema.index_of(options.group);
  auto const& column = schema.columns()[index];
  require(!column.is_float() && column.width == 1,
          "loader: the group '{}' is of type {} and width {}; expected one integer or hashed "
          "string in each row",
          options.group,
          to_string(column.type),
          column.width);
  return index;
}

LoaderPosition settings_of(LoaderOptions const& options,
                           Reader const& reader,
                           FittedTransforms const* transforms) {
  auto const& schema = reader.schema();
  auto const part = part_of(options, reader);
  auto const source = reader.source();
  LoaderPosition settings = options.start.value_or(LoaderPosition());
  auto const batch_size = options.batch_size * options.ranks;
  auto const whole = kWholeEpoch / batch_size * batch_size;
  auto const window_rows =
      options.shuffle_rows >= whole
          ? whole
          : std::max<std::int64_t>(1, (options.shuffle_rows + batch_size - 1) / batch_size) *
                batch_size;
  auto const columns = fingerprint_of(schema.columns());
  auto const learned = transforms != nullptr ? transforms->fingerprint() : 0;
  if (options.start) {
    require(settings.seed == options.seed,
            "loader: the position is of seed {}, the options of seed {}",
            settings.seed,
            options.seed);
    require(settings.batch_size == batch_size,
            "loader: the position is of batches of {} rows on all ranks, the options of {}",
            settings.batch_size,
            batch_size);
    require(settings.window_rows == window_rows,
            "loader: the position is of windows of {} rows to shuffle, the options of {}",
            settings.window_rows,
            window_rows);
    require(settings.columns == columns,
            "loader: the position is of rows with other columns, or transforms of them; the "
            "reader's columns are {}",
            described(schema));
    require(settings.transforms == learned,
            "loader: the position is of transforms that have learned other values; expected those "
            "that were saved with it");
    require_source(settings.source, source);
    require(
        settings.part.empty() || settings.part == part,
        "loader: the position is of another part of the rows: {}; the reader gives the part: {}",
        settings.part,
        part);
  }
  settings.seed = options.seed;
  settings.batch_size = batch_size;
  settings.window_rows = window_rows;
  settings.columns = columns;
  settings.transforms = learned;
  settings.part = part;
  settings.source = source;
  return settings;
}

}  // namespace msstream::data::detail
